// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

// While something goes on, the page asks for itself again, and replaces the parts that have
// changed. An element with the attribute data-part is such a part, and #live says after how
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

// replace replaces the parts that differ, and gives the focus back.
function replace(next) {
  const focused = document.activeElement?.id;
  for (const part of document.querySelectorAll("[data-part]")) {
    const other = next.getElementById(part.id);
    if (!other || part.isEqualNode(other) || selects(part)) continue;
    for (const { name, value } of other.attributes) part.setAttribute(name, value);
    part.replaceChildren(...other.childNodes);
  }
  if (focused && document.activeElement?.id !== focused) document.getElementById(focused)?.focus({ preventScroll: true });
}

async function ask() {
  const began = performance.now();
  try {
    const answer = await fetch(location.href, { cache: "no-store", redirect: "error" });
    if (!answer.ok) throw new Error(`${answer.status}`);
    replace(new DOMParser().parseFromString(await answer.text(), "text/html"));
    failures = 0;
    say(seconds(document) ? "Live" : "It has ended");
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
