// A canvas to draw on, by mouse, finger, pen or keyboard. Strokes are lists of points [x, y] in
// thousandths of its side.
const STEP = 40; // Of an arrow key.
const CLOSEST = 3; // Distance between two points of a stroke.
const MOST = 4900; // Points; the server reads a few more.

export class Pad extends EventTarget {
  strokes = [];
  isLive = false;
  finished = false; // The next stroke begins a new drawing.
  #canvas;
  #drawing = false; // By a pointer, or with the pen of the keyboard down.
  #cursor = null;

  constructor(canvas) {
    super();
    this.#canvas = canvas;
    canvas.addEventListener("pointerdown", (event) => {
      if (!event.isPrimary || event.button) return;
      canvas.setPointerCapture(event.pointerId);
      this.#cursor = null;
      this.#begin(this.#place(event));
    });
    canvas.addEventListener("pointermove", (event) => {
      if (!this.#drawing || !event.isPrimary || this.#cursor) return;
      const moves = event.getCoalescedEvents?.() ?? [];
      for (const each of moves.length ? moves : [event]) this.#add(this.#place(each));
      this.#changed();
    });
    for (const name of ["pointerup", "pointercancel"]) canvas.addEventListener(name, () => this.#end());
    canvas.addEventListener("keydown", (event) => this.#key(event));
    canvas.addEventListener("blur", () => { this.#cursor = null; this.draw(); });
    new ResizeObserver(() => this.draw()).observe(canvas);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.draw());
  }

  /** What the server reads, or null. */
  get given() {
    return this.strokes.length ? this.strokes : null;
  }

  clear() {
    this.strokes = [];
    this.finished = this.#drawing = false;
    this.#changed();
  }

  draw() {
    const side = Math.round(this.#canvas.clientWidth * devicePixelRatio);
    this.#canvas.width = this.#canvas.height = side;
    const pen = this.#canvas.getContext("2d");
    const style = getComputedStyle(this.#canvas);
    pen.scale(side / 1000, side / 1000);
    Object.assign(pen, { lineWidth: 55, lineCap: "round", lineJoin: "round", strokeStyle: style.color });
    for (const stroke of this.strokes) {
      pen.beginPath();
      pen.moveTo(...stroke[0]);
      for (const point of stroke) pen.lineTo(...point);
      pen.stroke();
    }
    if (this.#cursor) {
      pen.beginPath();
      pen.arc(...this.#cursor, 34, 0, 7);
      Object.assign(pen, { lineWidth: 6, strokeStyle: style.outlineColor });
      pen.stroke();
    }
  }

  #place(event) {
    const box = this.#canvas.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top].map((each) => Math.round((each / box.width) * 1000));
  }

  #begin(place) {
    if (this.finished) this.strokes = [];
    this.finished = false;
    this.#drawing = true;
    this.strokes.push([place]);
    this.#changed();
  }

  #add(place) {
    const stroke = this.strokes.at(-1);
    const [x, y] = stroke.at(-1);
    const isFar = Math.hypot(place[0] - x, place[1] - y) >= CLOSEST;
    if (isFar && this.strokes.flat().length < MOST) stroke.push(place);
  }

  #end() {
    if (this.#drawing) this.dispatchEvent(new Event("stroke"));
    this.#drawing = false;
  }

  #key(event) {
    const move = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
    if (!move && event.key !== " ") return;
    event.preventDefault();
    const within = (each) => Math.min(960, Math.max(40, each));
    this.#cursor ??= [500, 500];
    if (move) {
      this.#cursor = this.#cursor.map((each, axis) => within(each + STEP * move[axis]));
      if (this.#drawing) this.#add(this.#cursor);
    } else if (this.#drawing) this.#end();
    else this.#begin(this.#cursor);
    this.#changed();
  }

  #changed() {
    this.draw();
    this.dispatchEvent(new Event("change"));
  }
}
