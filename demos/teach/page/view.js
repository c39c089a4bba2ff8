// What the state of the server looks like. Labels are shown as text, never as HTML.
const at = (id) => document.getElementById(id);

function make(tag, values = {}, ...children) {
  const made = Object.assign(document.createElement(tag), values);
  made.append(...children);
  return made;
}

/** Paint bytes of ink or of colours, in base64; ink in the colour of the text. Nothing clears. */
export function paint(canvas, image, [rows, columns, colours] = [1, 1]) {
  canvas.width = columns;
  canvas.height = rows;
  if (!image) return;
  const bytes = Uint8Array.from(atob(image), (each) => each.charCodeAt(0));
  const pen = canvas.getContext("2d");
  const pixels = pen.createImageData(columns, rows);
  if (colours) pixels.data.fill(255);
  bytes.forEach((each, place) => {
    pixels.data[colours ? 4 * Math.floor(place / 3) + (place % 3) : 4 * place + 3] = each;
  });
  pen.putImageData(pixels, 0, 0);
}

/** Return for every class the key that teaches it: the first character of its name that is free. */
export function keysOf(labels) {
  const keys = new Map();
  for (const label of labels) {
    const key = [...label.toLowerCase()].find((each) => each !== " " && !keys.has(each));
    if (key) keys.set(key, label);
  }
  return keys;
}

/** Show all of the state; `act` has the functions of the buttons. */
export function showState(state, act) {
  showClasses(state.classes, act.teach);
  showScore(state.hits);
  const lessons = state.lessons.map((lesson) => lessonOf(lesson, act)).reverse();
  at("lessons").replaceChildren(...lessons);
  at("older").hidden = state.lessons.length === state.hits.length;
  at("me").textContent = state.browser;
  const others = state.others.filter(([, taught, merged]) => taught || merged);
  at("others").replaceChildren(...others.map((each) => otherOf(...each, act)));
  at("alone").hidden = others.length > 0;
}

function showClasses(labels, teach) {
  const keys = new Map([...keysOf(labels)].map(([key, label]) => [label, key]));
  const rows = at("classes");
  at("nothing").hidden = labels.length > 0;
  // Rows stay, so that focus and moving bars do.
  for (const row of [...rows.children]) if (!labels.includes(row.dataset.label)) row.remove();
  for (const label of labels) {
    let row = [...rows.children].find((each) => each.dataset.label === label);
    if (!row) {
      const track = make("span", { className: "track" }, make("span", { className: "fill" }));
      const name = make("span", { className: "label", textContent: label });
      const button = make("button", { type: "button" }, make("kbd"), name, track, make("span", { className: "percent" }));
      button.setAttribute("aria-label", `Teach ${label}`);
      button.addEventListener("click", (event) => event.detail < 2 && teach(label)); // Two clicks teach once.
      row = make("li", {}, button);
      row.dataset.label = label;
    }
    row.querySelector("kbd").textContent = keys.get(label) ?? "";
    rows.append(row);
  }
}

/** Show the probabilities of all classes, or of none if there is no drawing. */
export function showChances(chances) {
  const best = Math.max(...chances.map(([, p]) => p));
  for (const row of at("classes").children) {
    const p = chances.find(([label]) => label === row.dataset.label)?.[1];
    const button = row.firstChild;
    button.classList.toggle("first", p !== undefined && p === best);
    button.title = p === undefined ? "" : `${row.dataset.label}, ${Math.round(100 * p)}%`;
    button.querySelector(".fill").style.transform = `scaleX(${p ?? 0})`;
    button.querySelector(".percent").textContent = p === undefined ? "" : `${Math.round(100 * p)}%`;
  }
}

function showScore(hits) {
  const right = hits.reduce((sum, each) => sum + each, 0);
  at("share").textContent = hits.length ? `${Math.round((100 * right) / hits.length)}%` : "–";
  at("share-of").textContent = hits.length
    ? `of ${hits.length} predicted right just before they were taught`
    : "Each is predicted, then taught.";
  const recent = hits.map((_, place) => {
    const some = hits.slice(Math.max(0, place - 9), place + 1);
    return some.reduce((sum, each) => sum + each, 0) / some.length;
  });
  const points = recent.map((each, place) => `${(100 * place) / Math.max(1, hits.length - 1)},${29 - 28 * each}`);
  at("curve").querySelector("polyline").setAttribute("points", points.join(" "));
}

/** Show lessons that the others contradict, each with the name that they give it. */
export function showSuspects(suspects, act) {
  at("no-doubts").hidden = suspects.length > 0;
  at("suspects").replaceChildren(...suspects.map((suspect) => {
    const made = lessonOf(suspect, act);
    const button = make("button", { type: "button", className: "other", textContent: `→ ${suspect.other}` });
    button.setAttribute("aria-label", `Correct ${suspect.label} to ${suspect.other}`);
    button.addEventListener("click", (event) => event.detail < 2 && act.correct(suspect, suspect.other));
    made.append(button);
    return made;
  }));
}

function lessonOf(lesson, act) {
  const image = make("canvas", { className: "image" });
  paint(image, lesson.image, lesson.shape);
  const name = make("button", { type: "button", className: "label", textContent: lesson.label });
  name.setAttribute("aria-label", `Correct the name of a lesson of ${lesson.label}`);
  name.addEventListener("click", () => act.correct(lesson, prompt("What is it?", lesson.label)));
  const button = make("button", { type: "button", textContent: "×", title: "Take back" });
  button.setAttribute("aria-label", `Take back a lesson of ${lesson.label}`);
  // The second click of two would hit the next lesson, which has moved here.
  button.addEventListener("click", (event) => event.detail < 2 && act.takeBack(lesson));
  const made = make("li", {}, image, name, button);
  made.classList.toggle("wrong", lesson.guess !== lesson.label);
  made.title = lesson.guess === null ? lesson.label : `${lesson.label}; predicted before: ${lesson.guess}`;
  return made;
}

function otherOf(number, taught, merged, act) {
  const lessons = (count) => `${count} ${count === 1 ? "lesson" : "lessons"}`;
  const button = (text, action, disabled = false) => {
    const made = make("button", { type: "button", textContent: text, disabled });
    made.addEventListener("click", () => action(number));
    return made;
  };
  const name = make("span", { textContent: `Browser ${number}: ${lessons(taught)}` });
  if (!merged) return make("div", {}, name, button("Merge", act.merge));
  const copy = make("span", { textContent: `(${lessons(merged)} merged)` });
  return make("div", {}, name, copy, button("Merge again", act.merge), button("Take out", act.part));
}
