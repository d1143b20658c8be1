"""axe-core in half its time and with the same answers, also to what it finds no fault in.

On a page of thousands of words most of axe's time goes into its colours: it reads each anew, and
keeps the private fields of each in a WeakMap, slow where it is large.
"""

from __future__ import annotations

import json

from axe_playwright_python.sync_playwright import Axe

WCAG = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]
CONTRAST = {"type": "rule", "values": ["color-contrast"]}
AXE = Axe().axe_script
QUICK = """(() => {
class WeakMap {
  key = Symbol();
  has(owner) { return owner != null && Object.hasOwn(owner, this.key); }
  get(owner) { return owner[this.key]; }
  set(owner, value) { owner[this.key] = value; return this; }
  delete(owner) { return delete owner[this.key]; }
}
class WeakSet extends WeakMap { add(owner) { return this.set(owner, true); } }
%s
const { Color } = axe.commons.color, parse = Color.prototype.parseString, known = new Map();
Color.prototype.parseString = function (text) {
  if (known.has(text)) return Object.assign(this, known.get(text));
  parse.call(this, text);
  known.set(text, { r: this.r, g: this.g, b: this.b, alpha: this.alpha });
  return this;
};
})()"""


def answers(
    page, rules: list[str] | dict, script: str = QUICK % AXE, within: str | None = None
) -> dict:
    """Return what axe says of an open page: violations, passes and more, each by rule."""
    page.evaluate(script)
    where = "document" if within is None else json.dumps(within)
    return page.evaluate(f"axe.run({where}, {json.dumps({'runOnly': rules})})")


def serious(page, rules: list[str] | dict, within: str | None = None) -> list[str]:
    """Return a line for each serious fault of access: the rule, and the first that breaks it."""
    return [
        f"{fault['id']} {fault['nodes'][0]['target']} {fault['nodes'][0]['html'][:200]}"
        for fault in answers(page, rules, within=within)["violations"]
        if fault["impact"] in ("serious", "critical")
    ]
