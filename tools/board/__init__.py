"""The board of a class: what thirty laptops predict and measure, on one page for the projector."""
