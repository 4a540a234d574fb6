// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

// While something goes on, the page asks for itself again, and replaces what has changed. An element with the attribute data-part can change, and #live says after how
// many seconds the page asks. Without this module, the page is reloaded by hand.

const longest = 60_000; // milliseconds between two attempts when the server doesn't answer
const note = document.getElementById("live-note");
const button = document.getElementById("live-pause");
let failures = 0;
let isPaused = false;
let timer = 0;

const seconds = (of) => Number(of.getElementById("live")?.dataset.seconds ?? 0);

function say(text) {
  if (note && note.textContent !== text) note.textContent = text;
}

// selects reports whether the user has selected text in an element, which its replacement
// would take away.
function selects(element) {
  const selection = document.getSelection();
  return selection !== null && !selection.isCollapsed && selection.containsNode(element, true);
}

// update makes a node what another one is, and leaves alone what is equal in them: the focus,
// the place to which a table is scrolled, and what the pointer is over.
function update(node, next) {
  if (node.isEqualNode(next)) return;
  if (node.nodeName !== next.nodeName) {
    node.replaceWith(next);
    return;
  }
  if (node.nodeType !== Node.ELEMENT_NODE) {
    node.data = next.data;
    return;
  }
  for (const { name } of [...node.attributes]) if (!next.hasAttribute(name)) node.removeAttribute(name);
  for (const { name, value } of next.attributes) if (node.getAttribute(name) !== value) node.setAttribute(name, value);
  if (node.childNodes.length !== next.childNodes.length) {
    node.replaceChildren(...next.childNodes);
    return;
  }
  const children = [...next.childNodes];
  [...node.childNodes].forEach((child, at) => update(child, children[at]));
}

// replace updates the parts, and gives the focus back to the link that had it.
function replace(next) {
  const focused = document.activeElement;
  const id = focused?.id;
  const href = focused?.getAttribute("href");
  for (const part of document.querySelectorAll("[data-part]")) {
    const other = next.getElementById(part.id);
    if (other && !selects(part)) update(part, other);
  }
  if (id ? document.activeElement?.id === id : document.activeElement?.getAttribute("href") === href) return;
  const again = id ? document.getElementById(id) : href && document.querySelector(`[href="${CSS.escape(href)}"]`);
  if (again) again.focus({ preventScroll: true });
}

// refusals say what an answer without a page means, by its status.
const refusals = {
  403: "You may not read that any more",
  404: "It is gone",
  502: "The API server doesn't tell: reload the page to see why",
  503: "Too many requests at once",
};

// refusal says what an answer means that isn't the page. Without the token of the command that
// runs, there is no page at all, not even one that says what's wrong.
function refusal(answer) {
  if (answer.status === 404 && !answer.headers.get("Content-Type")?.startsWith("text/html")) return "The command was started anew: open its new address";
  return refusals[answer.status] ?? `The command answers with ${answer.status}`;
}

async function ask() {
  const began = performance.now();
  try {
    const answer = await fetch(location.href, { cache: "no-store", redirect: "error" });
    if (answer.ok) {
      replace(new DOMParser().parseFromString(await answer.text(), "text/html"));
      failures = 0;
      say(seconds(document) ? "Live" : "It has ended");
    } else {
      failures++;
      say(refusal(answer));
    }
  } catch {
    failures++;
    say("No answer: is the command still running?");
  }
  plan(performance.now() - began);
}

// plan asks again later: the longer an answer takes, the later.
function plan(took) {
  const wait = seconds(document) * 1000;
  clearTimeout(timer);
  if (!wait) {
    if (button) button.hidden = true;
    return;
  }
  if (isPaused || document.hidden) return;
  timer = setTimeout(ask, Math.min(longest, Math.max(wait, 3 * took) * 2 ** failures));
}

if (seconds(document)) {
  say("Live");
  button.hidden = false;
  button.addEventListener("click", () => {
    isPaused = !isPaused;
    button.textContent = isPaused ? "Resume updates" : "Pause updates";
    say(isPaused ? "Paused" : "Live");
    if (isPaused) clearTimeout(timer);
    else ask();
  });
  document.addEventListener("visibilitychange", () => plan(0));
  plan(0);
}
