"use strict";
(() => {
  const PAGE_ROWS = 100, SHOWN_CHARS = 20000, SHOWN_TOKENS = 3000, OPEN_TOKENS = 1500, MOST_COLUMNS = 24;
  const EDGES = [-6, -4, -2, -1, -0.5, -0.1];
  const FIELDS = ["file", "block", "place", "environment", "split", "key", "seed", "visit", "member", "reward", "failure", "isTruncated", "turns", "tokens"];
  const byId = (id) => document.getElementById(id);
  // Everything from outside becomes a text node: there is no way from here to markup.
  const make = (tag, className, ...children) => {
    const element = document.createElement(tag);
    if (className) element.className = className;
    for (const child of children) if (child !== null && child !== undefined) element.append(child);
    return element;
  };
  const bytesOf = (text) => Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const number = (value) => value === null ? "–" : typeof value === "number" ? String(Number(value.toPrecision(4))) : value;

  const read = async (id) => {
    const stream = new Blob([bytesOf(byId(id).textContent)]).stream().pipeThrough(new DecompressionStream("gzip"));
    return JSON.parse(await new Response(stream).text());
  };
  const blocks = new Map();
  const trajectory = async (row) => {
    if (row.block === null) return null;
    if (!blocks.has(row.block)) {
      if (blocks.size >= 6) blocks.delete(blocks.keys().next().value);
      blocks.set(row.block, read("block-" + row.block));
    }
    return (await blocks.get(row.block))[row.place];
  };

  let index, rows, groups, shown = [], page = 0, chosen = null, ticket = 0;
  const form = byId("filters"), filters = form.elements;

  const longText = (text, className) => {
    const element = make("pre", className, text.slice(0, SHOWN_CHARS));
    if (text.length <= SHOWN_CHARS) return element;
    const more = make("button", "more", `Show all ${text.length.toLocaleString("en")} characters`);
    more.type = "button";
    more.onclick = () => { element.textContent = text; more.remove(); };
    return make("div", "", element, more);
  };

  const tokenPart = (segment) => {
    if (!segment.ids && !segment.logprobs) return null;
    const ids = segment.ids ? new Int32Array(bytesOf(segment.ids).buffer) : null;
    const logprobs = segment.logprobs ? new Float32Array(bytesOf(segment.logprobs).buffer) : null;
    const count = (ids || logprobs).length;
    let title = `${count.toLocaleString("en")} tokens`;
    if (logprobs) {
      const known = logprobs.filter((value) => !Number.isNaN(value));
      if (known.length) title += `, logprob ${(known.reduce((sum, value) => sum + value, 0) / known.length).toFixed(3)} on average, ${known.reduce((least, value) => Math.min(least, value), 0).toFixed(3)} at least`;
    }
    const hasText = ids && Object.keys(index.vocabulary).length > 0;
    const drawn = make("div", hasText ? "tokens" : "tokens ids");
    const draw = (from, to) => {
      const part = document.createDocumentFragment();
      for (let at = from; at < Math.min(to, count); at++) {
        const value = logprobs ? logprobs[at] : NaN;
        const level = Number.isNaN(value) ? "kn" : "k" + EDGES.filter((edge) => value > edge).length;
        const token = make("span", level, hasText ? index.vocabulary[ids[at]] : ids ? String(ids[at]) : value.toFixed(2));
        token.title = (ids ? `token ${ids[at]}` : "token") + (Number.isNaN(value) ? "" : `, logprob ${value.toFixed(3)}, ${(100 * Math.exp(value)).toFixed(1)} %`);
        part.append(token);
      }
      drawn.append(part);
      if (to < count) {
        const more = make("button", "more", `Show ${Math.min(SHOWN_TOKENS, count - to)} more`);
        more.type = "button";
        more.onclick = () => { more.remove(); draw(to, to + SHOWN_TOKENS); };
        drawn.append(more);
      }
    };
    const details = make("details", "", make("summary", "", title), drawn);
    const legend = make("p", "legend", "logprob ");
    ["≤ −6", "−4", "−2", "−1", "−0.5", "−0.1", "0"].forEach((label, level) => legend.append(make("span", "k" + level, label)));
    if (logprobs) details.append(legend);
    details.addEventListener("toggle", () => { if (details.open && !drawn.hasChildNodes()) draw(0, SHOWN_TOKENS); });
    details.dataset.count = count;
    return details;
  };

  const messagePart = (message, note) => {
    const article = make("article", message.role);
    article.append(make("h4", "", message.role + (message.name ? ` · ${message.name}` : ""), make("span", "", note)));
    if (message.reasoning) {
      const details = make("details", "", make("summary", "", "Reasoning"), longText(message.reasoning, "text reasoning"));
      details.open = message.reasoning.length < 2000;
      article.append(details);
    }
    if (message.text) article.append(longText(message.text, "text"));
    for (const part of message.parts || []) {
      if (part.text !== undefined) article.append(longText(part.text, "text"));
      else if (part.picture) { const image = make("img"); image.alt = "picture of the conversation"; image.src = part.picture; article.append(image); }
      else article.append(make("p", "empty", part.other));
    }
    for (const [name, given, id] of message.calls || []) {
      article.append(make("div", "call", make("b", "", name), make("small", "empty", "  " + id), longText(given, "")));
    }
    return article;
  };

  const rewardTable = (seats, isCompact) => {
    const body = make("tbody"), names = Object.keys(seats);
    for (const name of names) {
      for (const part of seats[name].rewards) {
        const about = isCompact ? [] : [make("td", "", number(part.weight)), make("td", "", part.range || ""), make("td", "bad", part.error || "")];
        body.append(make("tr", "", make("td", "", names.length > 1 ? `${name}: ${part.name}` : part.name), make("td", "", number(part.value)), ...about));
      }
      body.append(make("tr", "", make("th", "", names.length > 1 ? `${name}${seats[name].is_trainable ? "" : " (not trained)"}` : "reward"), make("th", "", number(seats[name].reward)), ...(isCompact ? [] : [make("td"), make("td"), make("td")])));
    }
    const head = make("tr");
    for (const name of isCompact ? ["function", "value"] : ["function", "value", "weight", "range", ""]) head.append(make("th", "", name));
    return make("div", "scroll", make("table", "", make("thead", "", head), body));
  };

  const failurePart = (failure) => {
    const trace = make("details", "", make("summary", "", "Traceback"), longText(failure.traceback, ""));
    return make("div", "failure", make("b", "", failure.title), longText(failure.message, "text"), failure.traceback ? trace : null);
  };

  const nameOf = (row) => `${row.key}${row.visit ? ` (visit ${row.visit})` : ""}`;
  const headOf = (title) => {
    const back = make("button", "back", "Back to the list"), move = make("span");
    back.type = "button";
    back.onclick = () => { location.hash = ""; };
    for (const [label, by] of [["Previous", -1], ["Next", 1]]) {
      const button = make("button", "", label);
      button.type = "button";
      button.onclick = () => step(by);
      move.append(button, " ");
    }
    return make("div", "head", back, make("h2", "", title), move);
  };

  const attemptPart = (row, it) => {
    const parts = [headOf(`Task ${nameOf(row)}, member ${row.member}`)], group = groups[row.group];
    if (group.rows.length > 1) {
      const compare = make("button", "more", `Compare the ${group.rows.length} attempts at this task`);
      compare.type = "button";
      compare.onclick = () => { location.hash = "g" + row.group; };
      parts.push(compare);
    }
    if (it === null) return [...parts, make("p", "empty", "The turns of this attempt are not in the page, which would have become too large. `strop eval view` shows them.")];
    if (it.failure) parts.push(failurePart(it.failure));
    parts.push(make("h3", "", "Rewards"), rewardTable(it.seats));
    const facts = make("dl", "facts");
    for (const [name, value] of it.facts) facts.append(make("dt", "", name), make("dd", "", longText(value, "text")));
    const about = make("details", "", make("summary", "", "Facts, reference and outcome"), facts);
    parts.push(make("h3", "", "Turns"), about);
    const continued = new Set(), hasSeats = Object.keys(it.seats).length > 1;
    let turn = 0, tokenCount = 0;
    for (const segment of it.segments) {
      const notes = hasSeats ? [segment.seat] : [];
      if (segment.kind === "completion") {
        notes.push(`turn ${++turn}`);
        if (it.turn_rewards) notes.push(`reward ${number(it.turn_rewards[turn - 1])}`);
        notes.push(segment.sampling);
      }
      const from = `${segment.seat}\u0000${segment.parent}`;
      if (continued.has(from)) notes.push(segment.parent === null ? "begins anew" : `forks after segment ${segment.parent}`);
      continued.add(from);
      let last = null;
      for (const message of segment.messages) parts.push(last = messagePart(message, notes.join(" · ")));
      const tokens = segment.kind === "completion" ? tokenPart(segment) : null;
      if (tokens && last) {
        last.append(tokens);
        tokenCount += Number(tokens.dataset.count);
        tokens.open = tokenCount <= OPEN_TOKENS;
      }
    }
    return parts;
  };

  const groupPart = (group, all) => {
    const columns = make("div", "columns");
    group.rows.slice(0, MOST_COLUMNS).forEach((row, at) => {
      const it = all[at], open = make("button", "", "Open");
      open.type = "button";
      open.onclick = () => { location.hash = "a" + row.index; };
      const column = make("section", "", make("h3", "", `Member ${row.member}: ${row.failure ? "failed" : number(row.reward)}`, open));
      if (it === null) column.append(make("p", "empty", "not in the page"));
      else {
        if (it.failure) column.append(failurePart(it.failure));
        column.append(rewardTable(it.seats, true), make("p", "empty", `${row.turns} turns, ${row.tokens} tokens, ${it.stop}`), make("div", "last", longText(it.last || "(no reply)", "text")));
      }
      columns.append(column);
    });
    const prompt = make("details", "", make("summary", "", "The task"));
    for (const text of (all.find((it) => it !== null) || { prompt: [] }).prompt) prompt.append(longText(text, "text"));
    prompt.open = true;
    const left = group.rows.length - MOST_COLUMNS;
    return [headOf(`Task ${nameOf(group.rows[0])}, ${group.rows.length} attempts`), prompt, columns, left > 0 ? make("p", "empty", `${left} more members are in the list of attempts.`) : ""];
  };

  const show = async () => {
    const mine = ++ticket, found = /^#([ag])(\d+)$/.exec(location.hash);
    chosen = found && (found[1] === "a" ? rows : groups)[Number(found[2])] ? { kind: found[1], index: Number(found[2]) } : null;
    document.body.classList.toggle("has-chosen", chosen !== null);
    const view = chosen && chosen.kind === "g" ? "groups" : "attempts";
    if (chosen && filters.view.value !== view) { filters.view.value = view; filter(); }
    mark();
    const detail = byId("detail");
    if (!chosen) return detail.replaceChildren(make("p", "empty", "Choose an attempt."));
    let parts;
    try {
      if (chosen.kind === "a") parts = attemptPart(rows[chosen.index], await trajectory(rows[chosen.index]));
      else parts = groupPart(groups[chosen.index], await Promise.all(groups[chosen.index].rows.slice(0, MOST_COLUMNS).map(trajectory)));
    } catch (error) {
      parts = [make("p", "bad", `This attempt cannot be read: ${error.message}`)];
    }
    // A slow block must not replace what was chosen meanwhile.
    if (mine !== ticket) return;
    detail.replaceChildren(...parts);
    if (matchMedia("(max-width: 56rem)").matches) scrollTo(0, 0);
    else if (detail.getBoundingClientRect().top < 0) detail.scrollIntoView();
  };

  const step = (by) => {
    const at = shown.findIndex((row) => chosen && row.kind === chosen.kind && row.index === chosen.index);
    const next = shown[at < 0 ? 0 : at + by];
    if (!next) return;
    page = Math.floor(shown.indexOf(next) / PAGE_ROWS);
    location.hash = next.kind + next.index;
    list();
  };

  const mark = () => {
    for (const button of byId("rows").querySelectorAll("button")) {
      const isChosen = chosen !== null && button.dataset.at === chosen.kind + chosen.index;
      button.setAttribute("aria-current", String(isChosen));
      if (!isChosen) continue;
      // Of the list alone: the page stays where it is.
      const box = byId("rows"), top = button.offsetTop;
      if (top < box.scrollTop || top + button.offsetHeight > box.scrollTop + box.clientHeight) box.scrollTop = top - box.clientHeight / 2;
    }
  };

  const matches = (row) => {
    const outcome = filters.outcome.value, low = filters.low.value, high = filters.high.value;
    if (filters.key.value && !row.key.toLowerCase().includes(filters.key.value.toLowerCase())) return false;
    if (outcome === "scored" && row.reward === null) return false;
    if (outcome === "failed" && !row.failure) return false;
    if (outcome === "truncated" && !row.isTruncated) return false;
    if (outcome.startsWith("failed:") && row.failure !== outcome.slice(7)) return false;
    if ((low || high) && typeof row.reward !== "number") return false;
    return !(low && row.reward < Number(low)) && !(high && row.reward > Number(high));
  };

  const ORDERS = {
    worst: (a, b) => (a.reward ?? Infinity) - (b.reward ?? Infinity),
    best: (a, b) => (b.reward ?? -Infinity) - (a.reward ?? -Infinity),
    turns: (a, b) => b.turns - a.turns,
    tokens: (a, b) => b.tokens - a.tokens,
  };

  const filter = () => {
    const isGroups = filters.view.value === "groups";
    shown = isGroups ? groups.filter((group) => group.rows.some(matches)) : rows.filter(matches);
    const order = ORDERS[filters.order.value];
    if (order) shown = [...shown].sort(order);
    page = 0;
    list();
  };

  const rowPart = (row) => {
    const isGroup = row.kind === "g", button = make("button");
    button.type = "button";
    button.dataset.at = row.kind + row.index;
    const reward = row.failure && !isGroup ? "failed" : number(row.reward);
    button.append(make("b", "", nameOf(row) + (isGroup ? "" : ` · ${row.member}`)), make("span", row.failure && !isGroup ? "reward bad" : "reward", reward));
    const facts = isGroup ? [`${row.rows.length} attempts`, row.failure ? `${row.failure} failed` : ""] : [`${row.turns} turns`, `${row.tokens} tokens`, row.failure || (row.isTruncated ? "truncated" : "")];
    button.append(make("small", "", facts.filter(Boolean).join(" · ")));
    button.onclick = () => { location.hash = button.dataset.at; };
    return make("li", "", button);
  };

  const list = () => {
    const first = page * PAGE_ROWS, last = Math.min(first + PAGE_ROWS, shown.length);
    byId("rows").replaceChildren(...shown.slice(first, last).map(rowPart));
    const what = filters.view.value;
    byId("count").textContent = `${shown.length.toLocaleString("en")} of ${(what === "groups" ? groups : rows).length.toLocaleString("en")} ${what}`;
    byId("page").textContent = shown.length ? `${first + 1} to ${last}` : "none";
    byId("before").disabled = page === 0;
    byId("after").disabled = last >= shown.length;
    mark();
  };

  const drawHistogram = () => {
    if (!index.histogram.length) return;
    const most = Math.max(...index.histogram.map((bar) => bar.count)), bars = byId("histogram").querySelector(".bars");
    for (const bar of index.histogram) {
      const label = bar.low === bar.high ? number(bar.low) : `${number(bar.low)} to ${number(bar.high)}`;
      const fill = make("span"), button = make("button", "", make("small", "", String(bar.count)), make("div", "", fill), make("small", "", number(bar.low)));
      button.type = "button";
      fill.style.height = `${bar.count ? Math.max(2, 100 * bar.count / most) : 0}%`;
      button.title = `${bar.count} with a reward of ${label}: show them`;
      button.setAttribute("aria-label", button.title);
      button.onclick = () => { filters.low.value = bar.low; filters.high.value = bar.high; filter(); };
      bars.append(button);
    }
    byId("histogram").hidden = false;
  };

  const gather = () => {
    rows = index.rows.map((values, at) => ({ kind: "a", index: at, ...Object.fromEntries(FIELDS.map((field, place) => [field, values[place]])) }));
    const found = new Map();
    for (const row of rows) {
      const name = JSON.stringify([row.file, row.environment, row.split, row.key, row.seed, row.visit]);
      if (!found.has(name)) found.set(name, []);
      found.get(name).push(row);
    }
    groups = [...found.values()].map((members, at) => {
      members.sort((a, b) => a.member - b.member);
      for (const row of members) row.group = at;
      const rewards = members.map((row) => row.reward).filter((reward) => typeof reward === "number");
      const sum = (field) => members.reduce((total, row) => total + row[field], 0);
      return { kind: "g", index: at, rows: members, key: members[0].key, visit: members[0].visit, failure: members.filter((row) => row.failure).length, reward: rewards.length ? rewards.reduce((a, b) => a + b, 0) / rewards.length : null, turns: sum("turns"), tokens: sum("tokens") };
    });
  };

  const start = async () => {
    if (!("DecompressionStream" in window)) throw new Error("this browser is too old to unpack its data");
    index = await read("index");
    gather();
    drawHistogram();
    const notes = index.torn.map((line) => `${line} is torn and not shown.`);
    if (index.left_out_count) notes.push(`${index.left_out_count.toLocaleString("en")} of ${rows.length.toLocaleString("en")} attempts are listed without their turns: the page would have become too large.`);
    byId("notice").textContent = notes.join(" ");
    byId("notice").hidden = !notes.length;
    for (const kind of new Set(rows.map((row) => row.failure).filter(Boolean))) {
      const option = make("option", "", `failed: ${kind}`);
      option.value = "failed:" + kind;
      filters.outcome.append(option);
    }
    form.hidden = byId("work").hidden = false;
    form.oninput = filter;
    form.onsubmit = (event) => event.preventDefault();
    form.onreset = () => setTimeout(filter);
    byId("before").onclick = () => { page--; list(); };
    byId("after").onclick = () => { page++; list(); };
    addEventListener("hashchange", show);
    addEventListener("keydown", (event) => {
      if (event.target.closest("input, select") || event.ctrlKey || event.metaKey || event.altKey) return;
      if (event.key === "j") step(1);
      else if (event.key === "k") step(-1);
      else if (event.key === "/") { event.preventDefault(); filters.key.focus(); }
    });
    filter();
    if (!location.hash && rows.length === 1) location.hash = "a0";
    await show();
    document.body.dataset.ready = "true";
  };
  start().catch((error) => { byId("notice").textContent = `The page cannot show its data: ${error.message}.`; byId("notice").hidden = false; });
})();
