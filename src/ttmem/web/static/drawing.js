// Draws anew without replacing what is there: the focus, selected text, scroll positions and clicks that have begun stay.

const HANDLERS = ["onclick", "oninput"];
const kept = new WeakSet();

/** An element that changes by itself: it is put in its place, and otherwise left alone. */
export function keep(made) {
  kept.add(made);
  return made;
}

/** Makes `children` the children of `parent`. */
export function show(parent, children) {
  children.forEach((made, at) => {
    const there = parent.childNodes[at];
    if (there === made) return;
    if (!there || kept.has(there)) parent.insertBefore(made, there ?? null);
    else if (!update(there, made)) there.replaceWith(made);
  });
  while (parent.childNodes.length > children.length) parent.lastChild.remove();
}

/** Makes an element look like another; false if it cannot. */
function update(there, made) {
  if (kept.has(made) || there.nodeName !== made.nodeName || there.nodeName === "CANVAS") return false;
  if (there.nodeType === Node.TEXT_NODE) {
    if (there.data !== made.data) there.data = made.data;
    return true;
  }
  for (const name of there.getAttributeNames()) if (!made.hasAttribute(name)) there.removeAttribute(name);
  for (const name of made.getAttributeNames()) {
    if (there.getAttribute(name) === made.getAttribute(name)) continue;
    if (name === "style") there.style.cssText = made.style.cssText; // as an attribute, the policy of the page forbids it
    else there.setAttribute(name, made.getAttribute(name));
  }
  for (const name of HANDLERS) there[name] = made[name];
  if (there.nodeName === "INPUT" && there.value !== made.value) there.value = made.value;
  show(there, [...made.childNodes]);
  return true;
}
