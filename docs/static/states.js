// Controls of a widget switch between its states, which the page has; a slider also plays them in turn.
for (const box of document.querySelectorAll(".states")) {
  const states = JSON.parse(box.dataset.states);
  const controls = [...box.querySelectorAll(".states-controls input, .states-controls select")];
  const panels = [...box.querySelectorAll(".states-panel")];
  const live = box.querySelector(".states-shown");
  const show = (moved) => {
    if (!(controls.map((control) => control.value) in states)) {
      for (const control of controls) if (control !== moved) control.value = control.dataset.start;
    }
    for (const control of controls) {
      if (control.type !== "range") continue;
      const word = JSON.parse(control.dataset.words)[control.value];
      control.setAttribute("aria-valuetext", word);
      control.nextElementSibling.textContent = word;
    }
    const now = states[controls.map((control) => control.value)];
    panels.forEach((panel, index) => { panel.hidden = index !== now; });
  };
  for (const control of controls) {
    control.value = control.dataset.start; // not what a browser kept of the last visit
    control.addEventListener("input", () => { stop(); show(control); });
  }

  let timer = null, playing = null;
  const stop = () => {
    if (!playing) return;
    clearInterval(timer);
    playing.textContent = "Play";
    playing.setAttribute("aria-label", playing.getAttribute("aria-label").replace("Pause", "Play"));
    playing = null;
    live.setAttribute("aria-live", "polite");
  };
  for (const button of box.querySelectorAll("[data-plays]")) {
    const control = document.getElementById(button.dataset.plays);
    const step = () => {
      control.value = Number(control.value) + 1;
      show(control);
      if (control.value === control.max) stop();
    };
    button.addEventListener("click", () => {
      const pause = playing === button;
      stop();
      if (pause) return;
      playing = button;
      live.setAttribute("aria-live", "off"); // nobody can listen so fast
      button.textContent = "Pause";
      button.setAttribute("aria-label", button.getAttribute("aria-label").replace("Play", "Pause"));
      if (control.value === control.max) { control.value = -1; step(); }
      timer = setInterval(step, 800);
    });
  }

  // Pictures that stand hidden load when somebody comes near the controls.
  const load = () => { for (const picture of box.querySelectorAll("img")) picture.loading = "eager"; };
  for (const event of ["pointerenter", "focusin"]) box.addEventListener(event, load, { once: true });
  box.querySelector(".states-controls").hidden = false;
  box.classList.add("states-ready");
}
