import { make, press } from "./dom.js";

// A player of any picture that has steps: first, back, play, step, last, a scrubber, and a sentence.
//
//   const control = player(root, { steps, draw(step, part), label(step), seconds });
//   root.append(svg);                        // the controls come first, the picture below them
//
// steps     how many follow frame 0: the frames are 0 ... steps
// draw      paints frame `step`; with 0 < part < 1 what leads to step + 1 is that far on its way
// label     the sentence for frame `step`, shown and read aloud (while it plays it is only shown)
// seconds   from one step to the next while it plays (default 1.2)
// moving    how many of these the way takes (default 0: `draw` is never called with a part)
// name      what the group of controls is called, aloud (default "player")
// id        how the data-testid of each part begins: ID-first, -back, -play, -step, -last, -scrubber, -frame (text
//           "step 2 of 6", attribute data-frame="2"), -status (default "player")
// status    an element for the sentence, in place of a new one
//
// control.frame is the frame shown; control.go(step), control.stop(); control.load({ steps, ... }) takes other options
// in place of the old ones and begins again. Keys, when something within root has the focus: left and right step, Home
// and End go to the ends, Space plays and pauses; sliders and menus keep their own. Who prefers reduced motion sees
// steps without the way between them.
export function player(root, options) {
  let o = { seconds: 1.2, moving: 0, name: "player", id: "player", ...options };
  let playing = false, request = null, timer = null;
  const control = { frame: 0, go, stop, load };
  const reduced = matchMedia("(prefers-reduced-motion: reduce)");

  const bar = make("div", { class: "bar", role: "group", "aria-label": o.name }, root);
  const button = (id, sign, label, action) => press(bar, `${o.id}-${id}`, sign, label, action);
  const first = button("first", "|◀", "to the beginning", () => go(0));
  const back = button("back", "◀", "one step back", () => go(control.frame - 1));
  const play = button("play", "▶ play", "play", toggle);
  const step = button("step", "▶|", "one step forward", () => { stop(); forward(); });
  const last = button("last", "▶▶|", "to the end", () => go(o.steps));
  const scrubber = make("input", { type: "range", min: 0, step: 1, class: "scrubber", "data-testid": `${o.id}-scrubber`, "aria-label": "step" }, bar);
  scrubber.addEventListener("input", () => go(Number(scrubber.value)));
  const counter = make("span", { class: "frame", "data-testid": `${o.id}-frame` }, bar);
  const status = o.status || make("div", { "data-testid": `${o.id}-status` });
  status.classList.add("status");
  root.append(status);

  root.addEventListener("keydown", (event) => {
    const plain = !(event.shiftKey || event.ctrlKey || event.altKey || event.metaKey);
    if (!plain || event.defaultPrevented || event.target.closest("input, select, textarea")) return;
    if (event.key === " " && event.target.closest("button")) return;
    const pressed = { ArrowLeft: back, ArrowRight: step, Home: first, End: last, " ": play }[event.key];
    if (!pressed) return;
    event.preventDefault();
    pressed.click();
  });

  function say() {
    const { frame } = control, atStart = frame === 0, atEnd = frame >= o.steps;
    counter.textContent = `step ${frame} of ${o.steps}`;
    counter.dataset.frame = frame;
    scrubber.max = o.steps;
    scrubber.value = frame;
    scrubber.setAttribute("aria-valuetext", `${frame} of ${o.steps}`);
    // not `disabled`: a button that loses the focus takes the keys with it
    for (const [node, off] of [[first, atStart], [back, atStart], [step, atEnd], [last, atEnd]]) node.setAttribute("aria-disabled", off);
    play.textContent = playing ? "❚❚ pause" : "▶ play";
    play.title = playing ? "pause" : "play";
    play.setAttribute("aria-label", play.title);
    status.setAttribute("aria-live", playing ? "off" : "polite");
    status.textContent = o.label(frame);
  }

  function halt() {
    cancelAnimationFrame(request);
    clearTimeout(timer);
    request = timer = null;
  }

  function stop() {
    const way = request !== null;
    halt();
    playing = false;
    if (way) o.draw(control.frame, 0);
    say();
  }

  function go(frame) {
    halt();
    playing = false;
    control.frame = Math.max(0, Math.min(frame, o.steps));
    o.draw(control.frame, 0);
    say();
  }

  function load(others) {
    o = { ...o, ...others };
    go(0);
  }

  // One step forward: the counter tells the step at once, the picture follows.
  function forward() {
    const from = control.frame, begun = performance.now();
    if (from >= o.steps) return;
    control.frame = from + 1;
    say();
    const arrive = () => {
      request = null;
      o.draw(control.frame, 0);
      if (!playing) return;
      if (control.frame >= o.steps) { stop(); return; }
      timer = setTimeout(next, Math.max(0, 1000 * o.seconds - (performance.now() - begun)));
    };
    const travel = (now) => {
      const part = (now - begun) / (1000 * o.moving);
      if (part >= 1) { arrive(); return; }
      o.draw(from, Math.max(part, 1e-6));
      request = requestAnimationFrame(travel);
    };
    if (!o.moving || reduced.matches || document.hidden) arrive();
    else request = requestAnimationFrame(travel);
  }

  // A picture that was taken out of the page (its cell ran again) does not play on.
  function next() {
    if (root.isConnected) forward();
    else stop();
  }

  function toggle() {
    if (playing) { stop(); return; }
    if (control.frame >= o.steps) go(0);
    playing = true;
    forward();
    if (!o.steps) stop();
  }

  go(0);
  return control;
}
