// The page: what is drawn or photographed is predicted, what is pressed is taught. The server holds
// the state. Addresses are relative: there may be a code before them, and photos are in a folder.
import { Camera } from "./camera.js";
import { Pad } from "./pad.js";
import { keysOf, paint, showChances, showState, showSuspects } from "./view.js";

const at = (id) => document.getElementById(id);
const ofPhotos = location.pathname.endsWith("/photos/");
const pad = new (ofPhotos ? Camera : Pad)(document.querySelector("#pad > canvas"));
const otherTabs = new BroadcastChannel(location.pathname);
let state = { classes: [], lessons: [] };
let taught = {}; // The image and the label of the last lesson: two clicks are one lesson.
let turn = Promise.resolve(); // One request for the state at a time, so that the latest comes last.
let opening = Promise.resolve(); // One photo at a time: what is taught is the one chosen last.
let last = 60; // Lessons shown.
let asking = false;
let askAgain = false;

async function ask(path, options) {
  let answer, data;
  try {
    answer = await fetch(path, options);
    data = await answer.json().catch((fault) => {
      if (answer.ok) throw fault; // The server has ended in the middle of its answer.
      return {};
    });
  } catch {
    throw new Error("The server does not answer. Start it again: python demos/teach");
  }
  if (!answer.ok) throw new Error(data.message ?? `The server answers ${answer.status}.`);
  return data;
}

const sayFault = (error) => say(error.message, true);
const post = (path, data) => ask(path, { method: "POST", body: JSON.stringify(data) });

function say(text, bad = false) {
  at("message").textContent = text;
  at("message").classList.toggle("bad", bad);
}

function show(news) {
  state = news;
  if (ofPhotos) pad.shape = state.shape;
  showState(state, { teach, takeBack, merge, part, correct });
  predict();
  if (!at("doubts").hidden) check();
}

const load = () => ask(`api/state?last=${last}`).then(show, sayFault);
const refresh = () => (turn = turn.then(load));

function change(data, done) {
  if (data.do !== "teach") taught = {}; // What is taught after it is a new lesson.
  return (turn = turn.then(() => make(data, done)));
}

async function make(data, done) {
  try {
    const news = await (data instanceof File
      ? ask(`api/model?last=${last}`, { method: "POST", body: data })
      : post(`api/change?last=${last}`, data));
    otherTabs.postMessage("changed");
    show(news);
    say(done);
    return true;
  } catch (error) {
    await load();
    sayFault(error);
    return false;
  }
}

async function predict() {
  at("pad-hint").hidden = pad.given !== null;
  askAgain = true;
  if (asking) return;
  asking = true;
  while (askAgain) {
    askAgain = false;
    const image = pad.given;
    const answer = image ? await post("api/predict", image).catch(sayFault) : { chances: [] };
    if (answer && (image === pad.given || pad.isLive)) {
      paint(at("seen"), answer.image, answer.shape);
      showChances(answer.chances);
    }
  }
  asking = false;
}

async function teach(label) {
  await opening;
  const image = pad.given;
  if (!image) return say(ofPhotos ? "Take a photo first." : "Draw something first.", true);
  if (taught.image === image && taught.label === label) return; // The second of two clicks.
  taught = { image, label };
  pad.finished = true; // What is drawn before the answer comes is the next drawing.
  const saved = await change({ do: "teach", image: structuredClone(image), label }, `Learnt as ${label}, and saved.`);
  if (!saved) taught = {};
  if (pad.given !== image && !pad.isLive) return saved; // The pad shows the next one already.
  pad.finished = saved;
  at("pad-stamp").textContent = label;
  at("pad").classList.toggle("taught", saved);
  return saved;
}

const takenBack = (lesson) => [{ do: "take back", number: lesson.id }, `Unlearnt: a lesson of ${lesson.label}.`];

async function takeBack(lesson) {
  await change(...takenBack(lesson));
  at("lessons").focus(); // The button is gone.
}

async function correct(lesson, label) {
  if (label === null || label.trim() === lesson.label) return; // Cancelled.
  await change({ do: "correct", number: lesson.id, label }, `Corrected: ${lesson.label} is ${label.trim()}.`);
  at("lessons").focus();
}

const check = () => ask("api/suspects").then((found) => {
  at("doubts").hidden = false;
  showSuspects(found, { takeBack, correct });
}, sayFault);

const merge = (number) => change({ do: "merge", number }, `Merged what browser ${number} has taught.`);
const part = (number) => change({ do: "part", number }, `Without what browser ${number} has taught.`);

async function sure() {
  await turn; // Before the first answer, nobody knows whether there are lessons.
  return !state.lessons.length || confirm("Start over? The model forgets all lessons of this browser.");
}

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
  const label = at("name").value;
  if ((await teach(label)) && at("name").value === label) at("name").value = "";
});
at("older").addEventListener("click", () => { last += 240; refresh(); });
at("check").addEventListener("click", check);
at("camera").addEventListener("click", async () => {
  if (pad.isLive) return pad.stop();
  if (navigator.mediaDevices) return turn.then(() => pad.start()).catch((error) => say(`No camera: ${error.message}`, true));
  at("photo").capture = "environment"; // A page that is not encrypted asks the phone's own camera.
  at("photo").click();
});
at("choose").addEventListener("click", () => { at("photo").removeAttribute("capture"); at("photo").click(); });
at("photo").addEventListener("change", async (event) => {
  const file = event.target.files[0];
  // The first answer says which shape a photo has.
  const open = () => turn.then(() => pad.open(file)).catch(() => say(`${file.name} cannot be read as a photo.`, true));
  if (file) await (opening = opening.then(open));
  event.target.value = "";
});
at("upload").addEventListener("click", () => at("file").click());
at("file").addEventListener("change", async (event) => {
  const file = event.target.files[0];
  if (file?.size > 20e6) say(`${file.name} has over 20 MB: no model that was downloaded here.`, true);
  else if (file && (await sure())) await change(file, `Started over with ${file.name}.`);
  event.target.value = "";
});
for (const each of document.querySelectorAll("[data-start]")) {
  const start = each.dataset.start;
  const done = start === "digits" ? "The model has learnt 1,797 digits. Teach it your hand." : "Started over, empty.";
  each.addEventListener("click", async () => (await sure()) && change({ do: "start", label: start }, done));
}
document.addEventListener("keydown", (event) => {
  if (event.target.matches("input") || event.altKey || event.repeat) return;
  // Which lesson is the latest, only the answers to earlier requests say.
  if ((event.ctrlKey || event.metaKey) && event.key === "z") {
    taught = {};
    turn = turn.then(() => state.lessons.length && make(...takenBack(state.lessons.at(-1))));
  }
  if (event.ctrlKey || event.metaKey) return;
  if (event.key === "Escape") pad.clear();
  const label = keysOf(state.classes).get(event.key.toLowerCase());
  if (label !== undefined) teach(label);
});
document.addEventListener("visibilitychange", () => document.hidden || refresh());
document.body.classList.toggle("photos", ofPhotos);
at("to-drawings").href = ofPhotos ? "../" : "./";
at("to-photos").href = ofPhotos ? "./" : "photos/";
at(ofPhotos ? "to-photos" : "to-drawings").setAttribute("aria-current", "page");
otherTabs.addEventListener("message", refresh);
refresh();
