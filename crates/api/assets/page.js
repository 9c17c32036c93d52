"use strict";
// The board: asks the API every two seconds and shows what it says. All text enters as text, never as markup.

const EVERY_MS = 2000;

const TEXTS = {
  en: {
    other_language: "中文",
    leave: "Forget token",
    ask_title: "Rota",
    ask_text: "This page shows what the API says, and needs a read or admin token for it. The token stays in this tab.",
    token: "Token",
    enter: "Show",
    close: "Close",
    running: "Running",
    next: "Next",
    last: "Last runs",
    workers: "Workers",
    held: "Waiting",
    run: "Run",
    job: "Job",
    worker: "Worker",
    state: "State",
    since: "Since",
    slot: "Slot",
    in: "In",
    why: "Why",
    late: "Late",
    took: "Took",
    try: "Try",
    app: "App",
    handlers: "Handlers",
    load: "Load",
    heard: "Heard",
    address: "Address",
    ready: "ready",
    not_ready: "not ready",
    nothing_running: "Nothing runs at the moment.",
    nothing_next: "No slot is to come.",
    nothing_last: "No run yet. Make a job: rota job add ping --every 5s --url URL",
    nothing_workers: "No worker has registered. Start one: rota worker --app APP",
    jobs_enabled: "jobs",
    jobs_paused: "paused",
    runs_open: "runs open",
    in_doubt: "in doubt",
    held_slots: "waiting",
    workers_online: "workers online",
    unreachable: "The server does not answer.",
    wrong_token: "This token is not valid here, or may not read.",
    ago: "{} ago",
    log: "Log",
    frozen: "Frozen",
    everything: "everything",
  },
  zh: {
    other_language: "English",
    leave: "清除令牌",
    ask_title: "Rota",
    ask_text: "本页显示 API 返回的内容，需要只读令牌或管理员令牌。令牌只保存在当前标签页。",
    token: "令牌",
    enter: "进入",
    close: "关闭",
    running: "正在运行",
    next: "即将触发",
    last: "最近运行",
    workers: "工作节点",
    held: "等待中",
    run: "运行",
    job: "任务",
    worker: "节点",
    state: "状态",
    since: "已持续",
    slot: "计划时刻",
    in: "距现在",
    why: "原因",
    late: "延迟",
    took: "耗时",
    try: "尝试",
    app: "应用",
    handlers: "处理器",
    load: "负载",
    heard: "上次心跳",
    address: "地址",
    ready: "就绪",
    not_ready: "未就绪",
    nothing_running: "目前没有正在运行的任务。",
    nothing_next: "没有即将触发的任务。",
    nothing_last: "还没有运行记录。新建任务：rota job add ping --every 5s --url URL",
    nothing_workers: "还没有节点注册。启动一个：rota worker --app APP",
    jobs_enabled: "任务",
    jobs_paused: "已暂停",
    runs_open: "未结束的运行",
    in_doubt: "存疑",
    held_slots: "等待中",
    workers_online: "在线节点",
    unreachable: "服务器没有响应。",
    wrong_token: "令牌在此无效，或没有读取权限。",
    ago: "{}前",
    log: "日志",
    frozen: "已冻结",
    everything: "全部",
  },
};

const TONES = {
  success: "good", online: "good",
  failed: "fault", timeout: "fault", lost: "fault", unreachable: "fault", rejected: "fault",
  in_doubt: "warn", stopping: "warn", killed: "warn", discarded: "warn", draining: "warn",
  running: "busy", dispatched: "busy", pending: "busy",
};

const $ = (id) => document.getElementById(id);
let language = "en";
let token = null;
let timer = null;
let lastShown = null;

const text = (key) => TEXTS[language][key];

function make(tag, className, content) {
  const element = document.createElement(tag);
  if (className) element.className = className;
  if (content !== undefined && content !== null) element.textContent = content;
  return element;
}

const cell = (content, className) => make("td", className, content);

function chipCell(state) {
  const td = make("td");
  td.append(make("span", `chip ${TONES[state] || ""}`, state));
  return td;
}

function runCell(run) {
  const td = make("td");
  const button = make("button", "link", run);
  button.type = "button";
  button.addEventListener("click", () => openStory(run));
  td.append(button);
  return td;
}

function fill(id, rows, empty) {
  const body = $(id);
  if (rows.length === 0) {
    const row = make("tr");
    const td = cell(empty, "empty");
    td.colSpan = body.parentElement.querySelectorAll("th").length || 1;
    row.append(td);
    body.replaceChildren(row);
    return;
  }
  body.replaceChildren(...rows.map((cells) => {
    const row = make("tr");
    row.append(...cells);
    return row;
  }));
}

function span(ms) {
  if (ms === undefined || ms === null) return "–";
  const sign = ms < 0 ? "-" : "";
  ms = Math.abs(ms);
  if (ms < 1000) return `${sign}${Math.round(ms)} ms`;
  if (ms < 60000) return `${sign}${(ms / 1000).toFixed(1)} s`;
  const s = Math.floor(ms / 1000);
  const two = (n) => String(n).padStart(2, "0");
  if (s < 3600) return `${sign}${Math.floor(s / 60)}m${two(s % 60)}s`;
  if (s < 86400) return `${sign}${Math.floor(s / 3600)}h${two(Math.floor(s / 60) % 60)}m`;
  return `${sign}${Math.floor(s / 86400)}d${two(Math.floor(s / 3600) % 24)}h`;
}

// "2026-12-01T02:00:00.250+08:00" as "12-01 02:00:00 +08:00".
function instant(rfc) {
  const parts = /^\d{4}-(\d\d-\d\d)T(\d\d:\d\d:\d\d)(?:\.\d+)?(.*)$/.exec(rfc);
  return parts ? `${parts[1]} ${parts[2]} ${parts[3] === "Z" ? "UTC" : parts[3]}` : rfc;
}

async function ask(path) {
  const response = await fetch(`/api/v1${path}`, { headers: { authorization: `Bearer ${token}` } });
  if (response.status === 401 || response.status === 403) throw { isToken: true };
  const body = await response.json();
  if (!response.ok) throw { message: body.message };
  return body;
}

function figure(value, key, isAlarm) {
  const box = make("div", `figure${isAlarm ? " alarm" : ""}`);
  box.append(make("b", "", Number(value).toLocaleString("en-US")), make("span", "", text(key)));
  return box;
}

function show({ server, live, runs, workers }) {
  const now = Date.parse(server.now);
  $("version").textContent = `${server.version}${server.is_dev ? " dev" : ""} · tzdb ${server.tzdb}`;
  $("clock").textContent = instant(server.now);
  const ready = $("ready");
  ready.hidden = false;
  ready.className = `chip ${server.is_ready ? "good" : "fault"}`;
  ready.textContent = text(server.is_ready ? "ready" : "not_ready");
  const frozen = (server.frozen || []).map((freeze) =>
    `${text("frozen")} (${freeze.app || text("everything")}, ${freeze.by}, ${freeze.since}): ${freeze.reason}`);
  notice(server.not_ready || frozen.join(" · ") || (live.broken[0] && `${live.broken[0].job}: ${live.broken[0].message}`));

  $("figures").replaceChildren(
    figure(server.jobs_enabled, "jobs_enabled"),
    figure(server.jobs_paused, "jobs_paused"),
    figure(server.runs_open, "runs_open"),
    figure(server.held, "held_slots", server.held > 0),
    figure(server.in_doubt, "in_doubt", server.in_doubt > 0),
    figure(server.workers_online, "workers_online"),
  );

  $("running_count").textContent = live.attempts_open || "";
  fill("running", live.attempts.slice(0, 12).map((open) => [
    runCell(open.run),
    cell(open.job_name),
    cell(open.worker_name),
    chipCell(open.state),
    cell(span(now - Date.parse(open.at)), "right"),
  ]), text("nothing_running"));

  fill("next", live.next.slice(0, 12).map((next) => [
    cell(next.job_name),
    cell(instant(next.slot)),
    cell(span(Date.parse(next.slot) - now), "right"),
  ]), text("nothing_next"));

  $("held_card").hidden = live.held.length === 0;
  $("held_count").textContent = server.held || "";
  fill("held", live.held.slice(0, 12).map((held) => {
    const why = cell(held.why);
    why.title = held.text;
    return [cell(held.job_name), cell(instant(held.slot)), why, cell(span(now - Date.parse(held.since)), "right")];
  }), "");

  fill("last", runs.items.map((run) => {
    const state = chipCell(run.state);
    state.title = run.message || "";
    const slot = instant(run.slot) + (run.slots > 1 ? ` ×${run.slots}` : "");
    return [
      runCell(run.run),
      cell(run.job_name),
      cell(slot),
      state,
      cell(run.why || "–"),
      cell(span(run.late_ms), "right"),
      cell(span(run.took_ms), "right"),
      cell(run.worker || "–"),
      cell(run.tries ? `${run.tries}/${run.tries_max}` : "–", "right"),
    ];
  }), text("nothing_last"));

  fill("workers", workers.items.map((worker) => {
    const state = chipCell(worker.state);
    state.title = worker.message || "";
    const load = worker.capacity ? `${worker.load}/${worker.capacity}` : String(worker.load);
    const heard = worker.silent_ms === undefined ? "–" : text("ago").replace("{}", span(worker.silent_ms));
    const address = cell(worker.message && worker.state === "unreachable" ? worker.message : worker.url, "code wide");
    return [
      cell(worker.name),
      cell(worker.app),
      state,
      cell(worker.handlers.join(", "), "wide"),
      cell(load, "right"),
      cell(heard, "right"),
      address,
    ];
  }), text("nothing_workers"));
}

function notice(message) {
  $("notice").hidden = !message;
  $("notice").textContent = message || "";
}

async function openStory(run) {
  const id = encodeURIComponent(run);
  let story;
  try {
    story = await ask(`/runs/${id}/why`);
  } catch (error) {
    notice(error.message || text("unreachable"));
    return;
  }
  $("story_title").textContent = story.title;
  fill("story_lines", story.lines.map((line) => [
    cell(line.at ? instant(line.at) : "", "code"),
    cell(line.about),
    cell(line.text, "wide"),
  ]), "");
  $("story_hints").textContent = story.hints.join("  |  ");
  const log = $("story_log");
  log.hidden = true;
  $("story").showModal();
  if (story.run.shards > 0) {
    const shown = await ask(`/runs/${id}/logs`).catch(() => null);
    log.hidden = !shown || shown.text === "";
    log.textContent = shown ? shown.text : "";
  }
}

async function poll() {
  clearTimeout(timer);
  if (token === null) return;
  const asked = token;
  try {
    const [server, live, runs, workers] = await Promise.all(
      ["/server", "/live", "/runs?limit=25", "/workers?limit=1000"].map(ask),
    );
    if (asked !== token) return;
    sessionStorage.setItem("rota.token", token);
    lastShown = { server, live, runs, workers };
    enter();
    show(lastShown);
  } catch (error) {
    if (asked !== token) return;
    if (error.isToken) {
      leave(text("wrong_token"));
      return;
    }
    notice(error.message && !(error instanceof TypeError) ? error.message : text("unreachable"));
    if (!lastShown) enter();
  }
  // A hidden tab asks nothing; it goes on when it is looked at.
  if (!document.hidden) timer = setTimeout(poll, EVERY_MS);
}

function enter() {
  $("door").hidden = true;
  $("board").hidden = false;
  $("leave").hidden = false;
}

function leave(message) {
  token = null;
  lastShown = null;
  clearTimeout(timer);
  sessionStorage.removeItem("rota.token");
  for (const id of ["board", "leave", "ready"]) $(id).hidden = true;
  $("door").hidden = false;
  $("ask_error").textContent = message || "";
  $("token").focus();
}

function speak(wanted) {
  language = TEXTS[wanted] ? wanted : "en";
  document.documentElement.lang = language === "zh" ? "zh-CN" : "en";
  for (const element of document.querySelectorAll("[data-text]")) element.textContent = text(element.dataset.text);
  if (lastShown) show(lastShown);
}

function start() {
  speak(sessionStorage.getItem("rota.language") || (navigator.language.startsWith("zh") ? "zh" : "en"));
  $("language").addEventListener("click", () => {
    const other = language === "en" ? "zh" : "en";
    sessionStorage.setItem("rota.language", other);
    speak(other);
  });
  $("leave").addEventListener("click", () => leave());
  $("ask").addEventListener("submit", (event) => {
    event.preventDefault();
    token = $("token").value.trim();
    $("token").value = "";
    poll();
  });
  document.addEventListener("visibilitychange", () => { if (!document.hidden) poll(); });

  // `/#token=…` comes from a terminal; the token leaves the address at once, and was never sent with it.
  const given = /^#token=(.+)$/.exec(location.hash);
  if (given) {
    history.replaceState(null, "", location.pathname);
    token = decodeURIComponent(given[1]);
  } else {
    token = sessionStorage.getItem("rota.token");
  }
  if (token) poll(); else leave();
}

start();
