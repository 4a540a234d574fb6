// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

// The button hands the trace of a run to a Perfetto in another window, as Perfetto documents it
// (https://perfetto.dev/docs/visualization/deep-linking-to-perfetto-ui): the window is sent PING
// until it answers PONG, and then the trace.

const patience = 60_000; // milliseconds until the other window answers
const pause = 200; // milliseconds between two PINGs

const part = document.getElementById("perfetto");
const note = document.getElementById("perfetto-note");
const { address, host, title, file } = part?.dataset ?? {};
let former = new AbortController();

// answered resolves once a window of an origin answers. Any other message is somebody else's.
// PING says nothing, so it may reach the page from which the window is about to go on; the trace
// is for the origin alone.
function answered(opened, origin, signal) {
  return new Promise((resolve, reject) => {
    const end = (settle, value) => {
      clearInterval(timer);
      removeEventListener("message", listen);
      settle(value);
    };
    const listen = (message) => {
      if (message.source === opened && message.origin === origin && message.data === "PONG") end(resolve);
    };
    const deadline = performance.now() + patience;
    const timer = setInterval(() => {
      if (signal.aborted) end(reject, new Error("another window was opened"));
      else if (opened.closed) end(reject, new Error(`${host} was closed, or keeps apart from the page that opens it`));
      else if (performance.now() > deadline) end(reject, new Error(`${host} doesn't answer`));
      else opened.postMessage("PING", "*");
    }, pause);
    addEventListener("message", listen);
  });
}

async function read(signal) {
  const answer = await fetch("timeline.pftrace", { cache: "no-store", redirect: "error", signal });
  if (!answer.ok) throw new Error(`the trace can't be read (${answer.status})`);
  return answer.arrayBuffer();
}

async function open() {
  former.abort();
  former = new AbortController();
  const { signal } = former;
  const opened = window.open(address);
  if (!opened) {
    note.textContent = "The browser has opened no window: allow this page to open one.";
    return;
  }
  note.textContent = `Waiting for ${host}`;
  try {
    const { origin } = new URL(address);
    const [buffer] = await Promise.all([read(signal), answered(opened, origin, signal)]);
    opened.postMessage({ perfetto: { buffer, title, fileName: file } }, origin, [buffer]);
    note.textContent = `Handed to ${host}`;
  } catch (error) {
    if (!signal.aborted) note.textContent = `Not handed to ${host}: ${error.message}`;
  }
}

if (part) {
  part.hidden = false;
  part.querySelector("button").addEventListener("click", open);
}
