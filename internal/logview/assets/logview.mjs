// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

// The view of a log: a scroller that holds a few chunks of rows, between two spaces whose heights
// stand for the rows that aren't there. The server has the lines, searches and folds them.

// chunkRows is how many rows are asked for at a time, and mostRows how many are held.
const chunkRows = 200;
const mostRows = 1000;
// mostHeight bounds the heights of the spaces, in pixels: browsers clamp what is higher than about
// 17 million.
const mostHeight = 6_000_000;
// mostMatches bounds the matches that are gone through.
const mostMatches = 10_000;
// spokenLines is how many of the new lines of a moment are read out.
const spokenLines = 5;

const policy = window.trustedTypes?.createPolicy("logview", { createHTML: (html) => html });
const trusted = (html) => (policy ? policy.createHTML(html) : html);
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

class LogView {
  constructor(root) {
    this.root = root;
    this.base = root.dataset.log;
    this.scroller = root.querySelector(".scroller");
    this.rows = root.querySelector(".rows");
    [this.above, this.below] = root.querySelectorAll(".space");
    this.form = root.querySelector("form.search");
    this.input = this.form.elements.q;
    this.chunks = []; // { from, to, element }
    this.total = 0;
    this.rowHeight = 20;
    this.hidden = new Set();
    this.opened = new Set(); // folds
    this.closed = new Set(); // folds, while all others are open
    this.switches = { follow: false, wrap: true, times: false, unfold: false, apart: false };
    this.query = { q: "", regexp: false, case: false };
    this.matches = [];
    this.current = -1;
    this.marks = {}; // the numbers of the records that have a class
    this.info = null;
    this.touched = false; // the reader has chosen where to look
    this.generation = 0; // of the chunks: answers to older requests don't count
    this.listen();
    root.querySelector(".tools").hidden = false;
    this.watch();
  }

  // Requests.

  parameters(more) {
    const p = new URLSearchParams(more);
    if (this.hidden.size) p.set("hide", [...this.hidden].join());
    if (this.opened.size) p.set("open", [...this.opened].join());
    if (this.closed.size) p.set("close", [...this.closed].join());
    for (const name of ["unfold", "apart"]) if (this.switches[name]) p.set(name, "1");
    return p;
  }

  async get(what, parameters, signal) {
    const response = await fetch(`${this.base}${what}?${this.parameters(parameters)}`, { signal });
    if (!response.ok) throw new Error(await this.refusal(response));
    return response.json();
  }

  // refusal returns why a request was refused. Only what the page itself says is text: a proxy in
  // front of it may answer with a page of its own.
  async refusal(response) {
    const isText = response.headers.get("Content-Type")?.startsWith("text/plain");
    return (isText && (await response.text()).trim()) || `the answer is ${response.status}`;
  }

  async getRows(parameters) {
    const { q, regexp, case: matchCase } = this.query;
    if (q) Object.assign(parameters, { q }, regexp && { regexp: 1 }, matchCase && { case: 1 });
    const answer = await this.get("rows", parameters);
    if (this.info && answer.epoch !== this.info.epoch) this.restart();
    return answer;
  }

  // restart forgets what it knows of an index that the server has closed.
  restart() {
    if (this.touched) this.resume = this.topLine() || this.resume;
    this.info = null;
    this.began = false;
    this.marks = {};
    this.opened.clear();
    this.closed.clear();
    this.hidden.clear();
    this.clear();
    this.total = 0;
    this.root.querySelector(".streams .choices").replaceChildren();
    this.root.querySelector(".remarks").replaceChildren();
    this.watch();
  }

  // watch asks what is known of the log, and again whenever that has changed, until its end.
  async watch() {
    if (this.watching) return;
    this.watching = true;
    try {
      await this.watchOn();
    } finally {
      this.watching = false;
    }
  }

  async watchOn() {
    for (let failures = 0, ends = 0; ; ) {
      if (document.hidden) {
        await new Promise((resolve) => document.addEventListener("visibilitychange", resolve, { once: true }));
        continue;
      }
      try {
        const info = await this.get("info", this.info ? { after: this.info.version } : {});
        failures = 0;
        await this.learn(info);
        if (info.done && !info.error) {
          if (this.info) return; // else the server has begun again meanwhile
          continue;
        }
        // The server reads a log again a while after it has failed.
        if (info.error) ends += 1;
        await pause(info.error ? Math.min(10_000 * ends, 60_000) : info.live ? 300 : this.chunks.length ? 700 : 50);
      } catch (error) {
        failures += 1;
        this.say(`The page can't read the log: ${error.message}. It tries again.`);
        await pause(Math.min(1000 * failures, 10_000));
      }
    }
  }

  async learn(info) {
    const before = this.info;
    if (info.closed) return void this.restart(); // and the next request opens it
    if (before && before.epoch !== info.epoch) this.restart();
    this.info = info;
    this.showStreams();
    this.remark(info);
    if (info.records > 0) this.scroller.hidden = false;
    this.root.querySelector("[data-switch=unfold]").hidden = info.folds === 0;
    this.root.querySelector("[data-switch=follow]").hidden = info.done;
    if (!this.linked && location.hash.startsWith("#log=")) {
      await this.openLink();
    } else if (info.live && !this.began) {
      this.began = true;
      if (!info.done && !this.touched) this.set("follow", true);
    }
    if (info.done) this.set("follow", false, true);
    await this.grow(info);
    this.tell();
  }

  // grow shows rows that are new.
  async grow(info) {
    if (this.busy) return;
    const last = this.chunks.at(-1);
    if (!last) {
      if (info.rows === 0) return;
      if (this.switches.follow) return void (await this.showEnd());
      if (!this.resume) return void (await this.showRow(0));
      if (info.records <= this.resume && !info.live) return;
      const line = this.resume; // where it was read before the server began again
      this.resume = 0;
      await this.showLine(line, 0);
      return;
    }
    if (this.switches.apart) {
      if (info.rows !== this.total) await this.reload();
      return;
    }
    const atEnd = last.to >= this.total;
    this.total = info.rows;
    if (this.switches.follow && info.rows - last.to > 2 * chunkRows) {
      await this.showEnd();
      if (this.chunks.length) this.speak(this.chunks.at(-1).element, spokenLines);
    } else if (atEnd) {
      await this.refreshEnd(last);
    }
    this.space();
    if (this.switches.follow) this.toEnd();
  }

  // refreshEnd asks for the last row again, which may have grown, and for what follows it.
  async refreshEnd(last) {
    const generation = this.generation;
    const answer = await this.getRows({ row: Math.max(last.to - 1, last.from), count: chunkRows });
    if (generation !== this.generation || this.chunks.at(-1) !== last || answer.to < last.to) return;
    const added = answer.to - last.to;
    const row = last.element.lastElementChild;
    const focused = row && row.querySelector("a.n") === document.activeElement;
    if (row) this.remove(row);
    last.element.insertAdjacentHTML("beforeend", trusted(answer.html));
    this.markIn(last.element);
    if (focused) this.rows.querySelector(`[data-n="${row.dataset.n}"] a.n`)?.focus({ preventScroll: true });
    last.to = answer.to;
    this.total = answer.total;
    if (this.switches.follow && added > 0) this.speak(last.element, added);
    if (last.to - last.from > 2 * chunkRows) this.split(last);
    this.trim(this.switches.follow);
  }

  // split makes two chunks of one that has grown.
  split(chunk) {
    const second = { from: chunk.from + chunkRows, to: chunk.to, element: this.newChunk() };
    while (chunk.element.children.length > chunkRows) second.element.append(chunk.element.children[chunkRows]);
    chunk.element.after(second.element);
    chunk.to = second.from;
    this.chunks.splice(this.chunks.indexOf(chunk) + 1, 0, second);
    if (second.to - second.from > 2 * chunkRows) this.split(second);
  }

  // speak adds new lines to the live region, which exists only while the end is followed.
  speak(chunk, added) {
    if (!this.tail) return;
    const rows = [...chunk.children].slice(-Math.min(added, spokenLines));
    for (const row of rows) {
      const line = document.createElement("div");
      line.textContent = (row.querySelector(".t") ?? row).textContent.slice(0, 300);
      this.tail.append(line);
    }
    while (this.tail.children.length > 2 * spokenLines) this.tail.firstElementChild.remove();
  }

  // Rows.

  newChunk() {
    const element = document.createElement("div");
    element.className = "chunk";
    return element;
  }

  clear() {
    this.generation += 1;
    this.chunks = [];
    this.remove(...this.rows.children);
  }

  // remove removes rows. The focus goes to the scroller if one of them has it.
  remove(...elements) {
    const focused = elements.some((element) => element.contains(document.activeElement));
    for (const element of elements) element.remove();
    if (focused) this.scroller.focus({ preventScroll: true });
  }

  chunkOf(answer) {
    const element = this.newChunk();
    element.innerHTML = trusted(answer.html);
    this.markIn(element);
    this.total = answer.total;
    return { from: answer.from, to: answer.to, element };
  }

  // replace shows one chunk in place of all.
  replace(answer) {
    this.scroller.hidden = false; // or nothing in it has a place, nor can have the focus
    this.clear();
    const chunk = this.chunkOf(answer);
    this.chunks = [chunk];
    this.rows.append(chunk.element);
    this.measure();
    this.setAbove(this.estimate(chunk.from));
    this.space();
    return chunk;
  }

  measure() {
    const rows = this.chunks.reduce((sum, chunk) => sum + chunk.to - chunk.from, 0);
    if (rows > 0) this.rowHeight = Math.max(this.rows.offsetHeight / rows, 8);
  }

  // estimate returns the height that stands for a number of rows.
  estimate(rows) {
    return rows * Math.min(this.rowHeight, mostHeight / Math.max(this.total, 1));
  }

  setAbove(height) {
    this.aboveHeight = Math.max(height, 0);
    this.above.style.height = `${this.aboveHeight}px`;
  }

  space() {
    const last = this.chunks.at(-1);
    this.below.style.height = `${last ? this.estimate(Math.max(this.total - last.to, 0)) : 0}px`;
  }

  // show replaces the rows, and scrolls so that one of them is at a height of the scroller.
  async show(parameters, place) {
    this.busy = true;
    const generation = (this.generation += 1);
    try {
      const answer = await this.getRows({ count: chunkRows, ...parameters });
      if (generation !== this.generation) return null;
      const chunk = this.replace(answer);
      place(chunk, answer);
      return chunk;
    } finally {
      if (generation + 1 >= this.generation) this.busy = false;
      this.fill();
    }
  }

  scrollTo(top) {
    this.expected = Math.round(top);
    this.scroller.scrollTop = top;
  }

  showRow(row) {
    return this.show({ row }, () => this.scrollTo(row === 0 ? 0 : this.aboveHeight));
  }

  // showLine shows a record, at a distance from the upper edge.
  async showLine(line, distance = this.scroller.clientHeight / 4) {
    let found = this.rows.querySelector(`[data-n="${line}"]`);
    if (found && !this.stale) {
      const seen = found.offsetTop - this.scroller.scrollTop;
      if (seen < 0 || seen > this.scroller.clientHeight - 3 * this.rowHeight) this.scrollTo(found.offsetTop - distance);
      return found;
    }
    this.stale = false;
    await this.show({ line }, (chunk, answer) => {
      found = chunk.element.children[answer.at - answer.from];
      if (found) this.scrollTo(found.offsetTop - distance);
    });
    return found;
  }

  async showEnd() {
    await this.show({ before: Number.MAX_SAFE_INTEGER }, () => this.toEnd());
  }

  toEnd() {
    this.scrollTo(this.scroller.scrollHeight - this.scroller.clientHeight);
  }

  // reload asks for the rows again, and keeps the line at the upper edge where it is.
  async reload() {
    const top = this.scroller.scrollTop;
    const rows = [...this.rows.querySelectorAll(".r")];
    const first = rows.find((row) => Number(row.dataset.n) >= 0 && row.offsetTop + row.offsetHeight > top);
    this.stale = true;
    if (first) await this.showLine(Number(first.dataset.n), first.offsetTop - top);
    else await this.showRow(0);
  }

  // fill adds chunks until the rows reach beyond the edges, and drops those that are far away.
  async fill() {
    if (this.filling || this.busy || !this.chunks.length) return;
    this.filling = true;
    try {
      for (let more = true; more && !this.busy; ) more = await this.fillOnce();
    } catch (error) {
      this.say(`The page can't read the log: ${error.message}`);
    } finally {
      this.filling = false;
    }
  }

  async fillOnce() {
    const generation = this.generation;
    const { scrollTop, clientHeight } = this.scroller;
    const margin = 1.5 * clientHeight;
    const first = this.chunks[0];
    const last = this.chunks.at(-1);
    const end = this.aboveHeight + this.rows.offsetHeight;
    if (scrollTop + clientHeight < this.aboveHeight || scrollTop > end) return false; // jump does it
    if (last.to < this.total && scrollTop + clientHeight + margin > end) {
      const answer = await this.getRows({ row: last.to, count: chunkRows });
      if (generation !== this.generation || this.chunks.at(-1) !== last || answer.to === answer.from) return false;
      const chunk = this.chunkOf(answer);
      this.chunks.push(chunk);
      this.rows.append(chunk.element);
      this.trim(true);
      this.space();
      return true;
    }
    if (first.from > 0 && scrollTop - margin < this.aboveHeight) {
      const answer = await this.getRows({ before: first.from, count: chunkRows });
      if (generation !== this.generation || this.chunks[0] !== first || answer.to !== first.from) return false;
      const chunk = this.chunkOf(answer);
      this.chunks.unshift(chunk);
      this.shift(() => this.rows.prepend(chunk.element), chunk.from);
      this.trim(false);
      this.space();
      return true;
    }
    return false;
  }

  // shift changes the rows at the upper end, and keeps what is seen where it is.
  shift(change, from) {
    const before = this.rows.offsetHeight;
    change();
    const added = this.rows.offsetHeight - before;
    const height = this.aboveHeight - added;
    const next = from === 0 ? 0 : height > 0 ? height : this.estimate(from);
    const moved = added + next - this.aboveHeight;
    this.setAbove(next);
    if (moved !== 0) this.scrollTo(this.scroller.scrollTop + moved);
  }

  // trim drops chunks beyond mostRows, from the upper end or from the lower one.
  trim(upper) {
    while (this.chunks.length > 2 && this.chunks.at(-1).to - this.chunks[0].from > mostRows) {
      if (upper) {
        const dropped = this.chunks.shift();
        this.shift(() => this.remove(dropped.element), this.chunks[0].from);
      } else {
        this.remove(this.chunks.pop().element);
      }
    }
  }

  // scrolled loads what is looked at now.
  scrolled() {
    const { scrollTop, clientHeight, scrollHeight } = this.scroller;
    const atEnd = scrollTop + clientHeight >= scrollHeight - 2;
    if (Math.abs(scrollTop - (this.expected ?? -9)) > 2) {
      this.touched = true;
      this.expected = undefined;
      if (this.switches.follow && !atEnd) this.set("follow", false);
    }
    const end = this.aboveHeight + this.rows.offsetHeight;
    const outside = scrollTop + clientHeight < this.aboveHeight || scrollTop > end;
    clearTimeout(this.jumping);
    if (outside || (atEnd && this.chunks.at(-1)?.to < this.total)) {
      this.jumping = setTimeout(() => this.jump().catch((error) => this.say(error.message)), 60);
    } else {
      this.fill();
    }
  }

  // jump shows the rows for which the height stands that is looked at.
  async jump() {
    const { scrollTop, clientHeight, scrollHeight } = this.scroller;
    const first = this.chunks[0];
    const last = this.chunks.at(-1);
    if (!first) return;
    if (scrollTop <= 0) return void (await this.showRow(0));
    if (scrollTop + clientHeight >= scrollHeight - 2) return void (await this.showEnd());
    const end = this.aboveHeight + this.rows.offsetHeight;
    const row = scrollTop < this.aboveHeight
      ? Math.floor((scrollTop / this.aboveHeight) * first.from)
      : last.to + Math.floor(((scrollTop - end) / Math.max(this.below.offsetHeight, 1)) * (this.total - last.to));
    // What is scrolled stays where it is, so that it can go on being dragged.
    await this.show({ row: Math.min(row, Math.max(this.total - 1, 0)) }, () => {
      this.setAbove(scrollTop);
      this.scrollTo(scrollTop);
    });
  }

  // Search.

  async search() {
    this.searching?.abort();
    const signal = (this.searching = new AbortController()).signal;
    const fields = this.form.elements;
    this.query = { q: fields.q.value, regexp: fields.regexp.checked, case: fields.case.checked };
    this.matches = [];
    this.current = -1;
    this.mark(null, "current");
    this.searched = !this.query.q;
    this.count();
    const start = this.topLine();
    try {
      if (!this.searched) {
        const again = !(await this.searchRange(start, Infinity, signal, (found) => this.matches.push(...found)));
        const earlier = [];
        if (again || !(await this.searchRange(0, start, signal, (found) => earlier.push(...found)))) {
          this.restart();
          return void (await this.search());
        }
        this.matches.unshift(...earlier);
        if (this.current >= 0) this.current += earlier.length;
        this.searched = true;
        if (this.current < 0 && earlier.length) await this.step(1);
      }
      this.count();
      if (this.current < 0) await this.reload(); // without marks
    } catch (error) {
      if (signal.aborted) return;
      this.form.querySelector(".found").textContent = error.message;
    }
  }

  // searchRange adds the matches of some records. It returns false if the server has begun again
  // to read the log, so that the numbers of records are others.
  async searchRange(from, to, signal, add) {
    const { q, regexp, case: matchCase } = this.query;
    const fixed = { q, ...(regexp && { regexp: 1 }), ...(matchCase && { case: 1 }), ...(to !== Infinity && { to }) };
    while (from < to && this.matches.length < mostMatches) {
      const live = this.info?.live; // before the request, so that it has all that was there
      const answer = await this.get("search", { ...fixed, from }, signal);
      if (this.info && answer.epoch !== this.info.epoch) return false;
      add(answer.matches);
      if (this.current < 0 && this.matches.length) {
        this.current = 0;
        await this.goTo(this.matches[0]);
      }
      this.count();
      if (answer.next === from || answer.next >= Math.min(to, answer.records)) {
        if (to !== Infinity || live) return true;
        await pause(700); // more is being read
      }
      from = answer.next;
    }
    return true;
  }

  count() {
    const found = this.form.querySelector(".found");
    const more = this.matches.length >= mostMatches ? "+" : this.searched ? "" : "…";
    if (!this.query.q) found.textContent = "";
    else if (!this.matches.length) found.textContent = this.searched ? "no line" : "…";
    else found.textContent = `${this.current + 1} of ${this.matches.length}${more}`;
  }

  async step(by) {
    if (!this.matches.length) return;
    this.current = (this.current + by + this.matches.length) % this.matches.length;
    this.count();
    await this.goTo(this.matches[this.current]);
  }

  async goTo({ line, folds = [] }) {
    this.set("follow", false);
    this.touched = true;
    this.unfold(folds);
    if (this.markedFor !== JSON.stringify(this.query)) this.stale = true;
    this.markedFor = JSON.stringify(this.query);
    this.mark(await this.showLine(line), "current");
  }

  // mark gives a row a class, which the row of its record keeps when it is read again.
  mark(row, name) {
    this.rows.querySelector(`.${name}`)?.classList.remove(name);
    row?.classList.add(name);
    this.marks[name] = row?.dataset.n;
  }

  markIn(element) {
    for (const [name, n] of Object.entries(this.marks)) {
      if (n !== undefined) element.querySelector(`[data-n="${n}"]`)?.classList.add(name);
    }
  }

  // topLine returns the record at the upper edge.
  topLine() {
    const top = this.scroller.scrollTop;
    for (const row of this.rows.querySelectorAll(".r")) {
      if (row.offsetTop + row.offsetHeight > top && Number(row.dataset.n) >= 0) return Number(row.dataset.n);
    }
    return 0;
  }

  // Folds and links.

  // unfold opens folds. It reports whether one was closed.
  unfold(folds) {
    for (const fold of folds) {
      if (this.opened.has(fold)) continue;
      this.closed.delete(fold);
      this.opened.add(fold);
      this.stale = true;
    }
  }

  async toggle(button) {
    const fold = Number(button.dataset.fold);
    if (button.getAttribute("aria-expanded") === "true") {
      this.opened.delete(fold);
      this.closed.add(fold);
    } else {
      this.closed.delete(fold);
      this.opened.add(fold);
    }
    const row = button.closest(".r");
    const distance = row.offsetTop - this.scroller.scrollTop;
    this.stale = true;
    this.touched = true;
    await this.showLine(Number(row.dataset.n), distance);
    this.rows.querySelector(`button[data-fold="${fold}"]`)?.focus({ preventScroll: true });
  }

  // openLink shows the line that the address of the page names, once the server has read it.
  async openLink() {
    const [, stream, at] = location.hash.match(/^#log=([^:]*):(\d+)$/) ?? [];
    if (stream === undefined) return void (this.linked = true);
    const answer = await this.get("find", { stream: decodeURIComponent(stream), at });
    if (!answer.found && !answer.passed) return;
    this.linked = true;
    this.began = true;
    if (!answer.found) {
      this.missing = "The log doesn't have the line of this link.";
      this.remark(this.info);
      return;
    }
    this.touched = true;
    this.set("follow", false);
    this.unfold(answer.folds);
    const row = await this.showLine(answer.line);
    this.mark(row, "target");
    row?.querySelector("a.n")?.focus({ preventScroll: true });
  }

  // What is above and below the lines.

  say(text) {
    const state = this.root.querySelector(".state");
    if (state.textContent !== text) state.textContent = text;
  }

  tell() {
    if (!this.info) return; // the server has begun again
    const { records, done, live, error } = this.info;
    const lines = this.info.streams.reduce((sum, stream) => sum + stream.lines, 0);
    const count = `${lines.toLocaleString("en")} line${lines === 1 ? "" : "s"}`;
    this.root.querySelector(".count").textContent = records ? `${count}.` : "";
    if (error) return;
    if (!live) this.say("The log is being read.");
    else if (!done) this.say("New lines appear as they are printed.");
    else this.say(records ? "That is the whole log." : "The containers have printed nothing.");
  }

  remark(info) {
    const texts = [...info.notes, this.missing, info.full, info.error].filter(Boolean);
    const remarks = this.root.querySelector(".remarks");
    if (texts.length === remarks.children.length && texts.every((text, at) => remarks.children[at].textContent === text)) return;
    remarks.replaceChildren(...texts.map((text) => {
      const paragraph = document.createElement("p");
      paragraph.textContent = text;
      return paragraph;
    }));
    if (info.error) this.say("");
  }

  showStreams() {
    const { streams } = this.info;
    const details = this.root.querySelector(".streams");
    details.hidden = streams.length < 2;
    this.root.classList.toggle("several", new Set(streams.map((stream) => stream.label)).size > 1);
    this.root.classList.toggle("both", streams.some((stream) => stream.name !== "stdout"));
    this.root.style.setProperty("--names", Math.max(4, ...streams.map((stream) => stream.label.length)));
    this.root.style.setProperty("--digits", Math.max(4, ...streams.map((stream) => String(stream.lines).length)));
    this.root.querySelector("[data-switch=apart]").hidden = !this.root.classList.contains("several");
    const choices = details.querySelector(".choices");
    if (choices.children.length === streams.length) return;
    choices.replaceChildren(...streams.map((stream, at) => {
      const label = document.createElement("label");
      const box = document.createElement("input");
      box.type = "checkbox";
      box.checked = !this.hidden.has(at);
      box.addEventListener("change", () => {
        if (box.checked) this.hidden.delete(at);
        else this.hidden.add(at);
        this.changed();
      });
      label.append(box, ` ${stream.label} ${stream.name}`);
      return label;
    }));
  }

  // changed shows the lines again after the reader has changed what is shown.
  async changed() {
    try {
      await this.reload();
      if (this.query.q) await this.search();
    } catch (error) {
      this.say(`The page can't read the log: ${error.message}`);
    }
  }

  set(name, value) {
    if (this.switches[name] === value) return;
    this.switches[name] = value;
    this.root.querySelector(`[data-switch=${name}]`).setAttribute("aria-pressed", value);
    if (name === "follow") this.setTail(value);
  }

  // setTail makes or removes the live region.
  setTail(is) {
    this.tail?.remove();
    this.tail = null;
    if (!is) return;
    this.tail = document.createElement("div");
    this.tail.className = "unseen";
    this.tail.setAttribute("role", "log");
    this.tail.setAttribute("aria-label", "New lines");
    this.root.append(this.tail);
  }

  async press(name) {
    this.set(name, !this.switches[name]);
    this.touched = true;
    const on = this.switches[name];
    switch (name) {
      case "follow":
        if (on) await this.showEnd();
        break;
      case "wrap":
      case "times": {
        const line = this.topLine();
        this.root.classList.toggle(name, on);
        this.measure();
        this.space();
        const row = this.rows.querySelector(`[data-n="${line}"]`);
        if (row) this.scrollTo(row.offsetTop);
        this.fill();
        break;
      }
      default:
        this.opened.clear();
        this.closed.clear();
        await this.changed();
    }
  }

  listen() {
    this.root.classList.add("wrap");
    this.scroller.addEventListener("scroll", () => this.scrolled(), { passive: true });
    new ResizeObserver(() => this.fill()).observe(this.scroller);
    this.root.addEventListener("click", (event) => {
      const { fold, switch: name, do: action } = event.target.closest("button")?.dataset ?? {};
      if (fold) this.toggle(event.target.closest("button"));
      if (name) this.press(name);
      if (action) this.step(action === "next" ? 1 : -1);
    });
    this.form.addEventListener("submit", (event) => {
      event.preventDefault();
      if (this.pending()) this.search();
      else this.step(1);
    });
    this.form.addEventListener("input", () => {
      clearTimeout(this.typing);
      this.typing = setTimeout(() => this.pending() && this.search(), 250);
    });
    this.root.addEventListener("keydown", (event) => this.key(event));
    window.addEventListener("hashchange", () => {
      this.linked = false;
      this.missing = "";
      if (!this.info) return;
      this.remark(this.info);
      this.openLink();
    });
  }

  // pending reports whether the form has something else than what was searched for.
  pending() {
    const { q, regexp, case: matchCase } = this.form.elements;
    return q.value !== this.query.q || regexp.checked !== this.query.regexp || matchCase.checked !== this.query.case;
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target === this.input) {
      if (event.key === "Enter" && event.shiftKey) {
        event.preventDefault();
        this.step(-1);
      } else if (event.key === "Escape") {
        this.scroller.focus();
      }
      return;
    }
    const name = { f: "follow", w: "wrap", t: "times", u: "unfold", a: "apart" }[event.key];
    if (name && !this.root.querySelector(`[data-switch=${name}]`).hidden) this.press(name);
    else if (event.key === "n" || event.key === "N") this.step(event.key === "n" ? 1 : -1);
    else if (event.key === "/") this.input.select();
    else return;
    event.preventDefault();
  }
}

for (const root of document.querySelectorAll("[data-log]")) new LogView(root);
