// Photos from a file or a camera, shown on a canvas and shrunk to the pixels that the model takes.
const EVERY = 300; // Milliseconds from one picture of the camera to the next.

export class Camera extends EventTarget {
  given = null; // The pixels in base64, or null.
  finished = false; // The photo is taught.
  shape = [3, 4]; // Height and width of what the model takes.
  #canvas;
  #small = document.createElement("canvas");
  #video = Object.assign(document.createElement("video"), { muted: true, playsInline: true });
  #timer = null;

  constructor(canvas) {
    super();
    this.#canvas = canvas;
  }

  get isLive() {
    return this.#timer !== null;
  }

  /** Show a photo of a file. */
  async open(file) {
    this.given = null; // Whoever teaches waits for the photo, and learns none if it cannot be read.
    const photo = await createImageBitmap(file);
    this.stop();
    this.#take(photo, photo.width, photo.height);
    photo.close();
    this.dispatchEvent(new Event("stroke"));
  }

  /** Show pictures of the camera until `stop`; a browser allows this to local and safe pages. */
  async start() {
    const video = this.#video;
    video.srcObject = await navigator.mediaDevices.getUserMedia({ video: { facingMode: "environment" } });
    await video.play();
    this.#timer ??= setInterval(() => this.#take(video, video.videoWidth, video.videoHeight), EVERY);
  }

  stop() {
    clearInterval(this.#timer);
    this.#timer = null;
    for (const track of this.#video.srcObject?.getTracks() ?? []) track.stop();
    this.#video.srcObject = null;
  }

  clear() {
    this.stop();
    this.given = null;
    this.#canvas.getContext("2d").clearRect(0, 0, this.#canvas.width, this.#canvas.height);
    this.dispatchEvent(new Event("change"));
  }

  #take(source, width, height) {
    if (!width || !height) return; // The camera has not begun.
    const [rows, columns] = this.shape;
    // The middle of the picture, in the proportions of what the model takes.
    const scale = Math.min(width / columns, height / rows);
    const from = [(width - scale * columns) / 2, (height - scale * rows) / 2, scale * columns, scale * rows];
    const side = Math.max(columns, Math.round(this.#canvas.clientWidth * devicePixelRatio));
    let pixels;
    for (const [canvas, across] of [[this.#canvas, side], [this.#small, columns]]) {
      canvas.width = across;
      canvas.height = Math.round((across * rows) / columns);
      const pen = canvas.getContext("2d", { willReadFrequently: canvas === this.#small });
      pen.imageSmoothingQuality = "high";
      pen.drawImage(source, ...from, 0, 0, canvas.width, canvas.height);
      if (canvas === this.#small) pixels = pen.getImageData(0, 0, columns, rows).data;
    }
    let bytes = "";
    pixels.forEach((each, place) => { if (place % 4 < 3) bytes += String.fromCharCode(each); });
    this.given = btoa(bytes);
    this.finished = false;
    this.dispatchEvent(new Event("change"));
  }
}
