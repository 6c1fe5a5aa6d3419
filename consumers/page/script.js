// Keeps the page up to date: asks for the figures, and where they changed takes over the page that the server made of
// them, node by node, so that focus, scrolling and opened details stay. Without it the page is complete, and stands.
"use strict";

(() => {
  const PERIOD_MS = 2000;
  const clockAhead = Date.now() - Date.parse(document.body.dataset.now);
  const connection = document.getElementById("connection");
  const button = document.getElementById("pause");
  let etag = "";
  let paused = false;
  let timer = 0;
  let busy = false;

  const age = (seconds) => {
    for (const [unit, length] of [["d", 86400], ["h", 3600], ["min", 60]]) {
      if (seconds >= 2 * length) return `${Math.floor(seconds / length)} ${unit}`;
    }
    return `${Math.max(0, Math.floor(seconds))} s`;
  };

  const tick = () => {
    for (const time of document.querySelectorAll("time[data-age]")) {
      const text = age((Date.now() - clockAhead - Date.parse(time.dateTime)) / 1000);
      if (time.textContent !== text) time.textContent = text;
    }
  };

  const attributes = (from, to) => {
    for (const { name } of [...from.attributes]) {
      if (!to.hasAttribute(name) && !(from.localName === "details" && name === "open")) from.removeAttribute(name);
    }
    for (const { name, value } of to.attributes) {
      if (from.localName === "details" && name === "open") continue;
      if (from.getAttribute(name) !== value) from.setAttribute(name, value);
    }
  };

  const morph = (from, to) => {
    if (from.isEqualNode(to)) return;
    if (from.nodeType !== to.nodeType || from.nodeName !== to.nodeName) {
      from.replaceWith(document.importNode(to, true));
      return;
    }
    if (from.nodeType !== Node.ELEMENT_NODE) {
      from.data = to.data;
      return;
    }
    attributes(from, to);
    const ours = [...from.childNodes];
    const theirs = [...to.childNodes];
    theirs.forEach((child, index) => {
      if (index < ours.length) morph(ours[index], child);
      else from.append(document.importNode(child, true));
    });
    for (const surplus of ours.slice(theirs.length)) surplus.remove();
  };

  const say = (text) => {
    if (connection.textContent !== text) connection.textContent = text;
  };

  const refresh = async () => {
    const headers = etag ? { "If-None-Match": etag } : {};
    const figures = await fetch("/status.json", { headers, cache: "no-store" });
    if (figures.status === 304) return;
    if (!figures.ok) throw new Error(`status ${figures.status}`);
    await figures.text();
    const page = await fetch("/", { cache: "no-store" });
    if (!page.ok) throw new Error(`status ${page.status}`);
    const fresh = new DOMParser().parseFromString(await page.text(), "text/html");
    if (paused) return;
    document.title = fresh.title;
    for (const part of ["main", "footer"]) morph(document.querySelector(part), fresh.querySelector(part));
    etag = figures.headers.get("ETag") || "";
  };

  const turn = async () => {
    window.clearTimeout(timer);
    if (paused || document.hidden || busy) return;
    busy = true;
    try {
      await refresh();
      say("");
    } catch {
      say("No answer: these are the last figures.");
    }
    busy = false;
    tick();
    timer = window.setTimeout(turn, PERIOD_MS);
  };

  button.hidden = false;
  button.addEventListener("click", () => {
    paused = !paused;
    button.setAttribute("aria-pressed", String(paused));
    button.textContent = paused ? "Paused" : "Pause updates";
    turn();
  });
  document.addEventListener("visibilitychange", turn);
  window.setInterval(() => { if (!document.hidden && !paused) tick(); }, 1000);
  timer = window.setTimeout(turn, PERIOD_MS);
})();
