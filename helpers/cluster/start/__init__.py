"""Ways to bring ranks to life, here and on other hosts, and to end them."""
