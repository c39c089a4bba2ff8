// The page: what is drawn is predicted, what is pressed is taught. The server holds the state.
import { Pad } from "/page/pad.js";
import { keysOf, paint, showChances, showState } from "/page/view.js";

const at = (id) => document.getElementById(id);
const pad = new Pad(document.querySelector("#pad > canvas"));
const otherTabs = new BroadcastChannel("lessons");
let state = { classes: [], version: 0 };
let last = 60; // Lessons shown.
let asking = false;
let askAgain = false;

async function ask(path, options) {
  let answer;
  try {
    answer = await fetch(path, options);
  } catch {
    throw new Error("The server does not answer. Start it again: python demos/teach");
  }
  const data = await answer.json().catch(() => ({}));
  if (!answer.ok) throw new Error(data.message ?? `The server answers ${answer.status}.`);
  return data;
}

const post = (path, data) => ask(path, { method: "POST", body: JSON.stringify(data) });

function say(text, bad = false) {
  at("message").textContent = text;
  at("message").classList.toggle("bad", bad);
}

function show(news) {
  if (news.version < state.version) return; // An earlier answer that came later.
  state = news;
  showState(state, { teach, takeBack, merge, part });
  predict();
}

const refresh = () => ask(`/api/state?last=${last}`).then(show, (error) => say(error.message, true));

async function change(data, done) {
  try {
    const news = await (data instanceof File
      ? ask(`/api/model?last=${last}`, { method: "POST", body: data })
      : post(`/api/change?last=${last}`, data));
    otherTabs.postMessage("changed");
    if (data.do === "teach") pad.finished = true;
    show(news);
    say(done);
    return true;
  } catch (error) {
    await refresh();
    say(error.message, true);
    return false;
  }
}

async function predict() {
  at("pad-hint").hidden = pad.strokes.length > 0;
  askAgain = true;
  if (asking) return;
  asking = true;
  while (askAgain) {
    askAgain = false;
    const strokes = pad.strokes;
    const answer = strokes.length ? await post("/api/predict", { strokes }).catch(() => null) : { chances: [] };
    if (answer && strokes === pad.strokes) {
      paint(at("seen"), answer.image);
      showChances(answer.chances);
    }
  }
  asking = false;
}

async function teach(label) {
  if (!pad.strokes.length) return say("Draw something first.", true);
  const taught = await change({ do: "teach", strokes: pad.strokes, label }, `Learnt as ${label}, and saved.`);
  at("pad-stamp").textContent = label;
  at("pad").classList.toggle("taught", taught);
  return taught;
}

async function takeBack(lesson) {
  await change({ do: "take back", number: lesson.id }, `Unlearnt: a lesson of ${lesson.label}.`);
  at("lessons").focus(); // The button is gone.
}
const merge = (number) => change({ do: "merge", number }, `Merged what browser ${number} has taught.`);
const part = (number) => change({ do: "part", number }, `Without what browser ${number} has taught.`);

const sure = () => !at("lessons").children.length || confirm("Start over? All lessons of this browser go.");

pad.addEventListener("change", () => {
  if (!pad.finished) at("pad").classList.remove("taught");
  predict();
});
pad.addEventListener("stroke", () => {
  const best = document.querySelector("#classes .first");
  if (best) at("spoken").textContent = `Looks like ${best.title}`;
});
at("clear").addEventListener("click", () => pad.clear());
at("new").addEventListener("submit", async (event) => {
  event.preventDefault();
  if (await teach(at("name").value)) at("name").value = "";
});
at("older").addEventListener("click", () => { last += 240; refresh(); });
at("upload").addEventListener("click", () => at("file").click());
at("file").addEventListener("change", async (event) => {
  const file = event.target.files[0];
  if (file && sure()) await change(file, `Started over with ${file.name}.`);
  event.target.value = "";
});
for (const each of document.querySelectorAll("[data-start]")) {
  const start = each.dataset.start;
  const done = start === "digits" ? "The model has learnt 1,797 digits. Teach it your hand." : "Started over, empty.";
  each.addEventListener("click", () => sure() && change({ do: "start", label: start }, done));
}
document.addEventListener("keydown", (event) => {
  if (event.target.matches("input") || event.altKey || event.repeat) return;
  if ((event.ctrlKey || event.metaKey) && event.key === "z" && state.lessons?.length) takeBack(state.lessons.at(-1));
  if (event.ctrlKey || event.metaKey) return;
  if (event.key === "Escape") pad.clear();
  const label = keysOf(state.classes).get(event.key.toLowerCase());
  if (label !== undefined) teach(label);
});
document.addEventListener("visibilitychange", () => document.hidden || refresh());
otherTabs.addEventListener("message", refresh);
refresh();
