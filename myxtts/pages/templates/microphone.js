// Reads a script into the microphone: one sentence, one WAV file, whatever the browser.
(() => {
  const at = (id) => document.getElementById(id);
  const panel = at("microphone"), level = at("level").getContext("2d");
  let sentences = [], place = 0, recording = null, last = null;

  const show = () => {
    const read = sentences.filter((each) => each.done).length;
    const one = sentences[place];
    at("sentence").textContent = one?.text ?? "";
    at("counted").textContent = one ? studio.said("sentenceOf", place + 1, sentences.length, read) : "";
    at("counted").classList.toggle("done", Boolean(one?.done));
    at("record").querySelector("span").textContent =
      studio.said(recording ? "stop" : one?.done ? "again" : "record");
    panel.classList.toggle("recording", Boolean(recording));
    at("hear").disabled = Boolean(recording) || !last;
    for (const id of ["previous", "next"]) at(id).disabled = Boolean(recording);
    at("record").disabled = !one;
  };
  const load = async () => {
    const answer = await fetch(`script?lang=${studio.lang}`);
    if (!answer.ok) return;
    sentences = await answer.json();
    place = Math.max(0, sentences.findIndex((each) => !each.done));
    last = null;
    show();
  };
  const goTo = (number) => {
    if (recording || !sentences.length) return;
    place = (number + sentences.length) % sentences.length;
    show();
  };

  // 16-bit mono: what training reads without converting.
  const wav = (blocks, rate) => {
    const count = blocks.reduce((sum, block) => sum + block.length, 0);
    const view = new DataView(new ArrayBuffer(44 + 2 * count));
    const text = (offset, letters) => [...letters].forEach((c, i) => view.setUint8(offset + i, c.charCodeAt(0)));
    text(0, "RIFF"); view.setUint32(4, 36 + 2 * count, true); text(8, "WAVEfmt ");
    view.setUint32(16, 16, true); view.setUint16(20, 1, true); view.setUint16(22, 1, true);
    view.setUint32(24, rate, true); view.setUint32(28, 2 * rate, true);
    view.setUint16(32, 2, true); view.setUint16(34, 16, true);
    text(36, "data"); view.setUint32(40, 2 * count, true);
    let offset = 44;
    for (const block of blocks) for (const value of block) {
      view.setInt16(offset, Math.round(32767 * Math.max(-1, Math.min(1, value))), true);
      offset += 2;
    }
    return new Blob([view], { type: "audio/wav" });
  };
  const drawLevel = (block) => {
    const { width, height } = level.canvas;
    const peak = block.reduce((most, value) => Math.max(most, Math.abs(value)), 0);
    recording.peak = Math.max(recording.peak, peak);
    level.drawImage(level.canvas, -2, 0);
    level.clearRect(width - 2, 0, 2, height);
    level.fillStyle = getComputedStyle(panel).color;
    level.fillRect(width - 2, height / 2 - peak * height / 2, 1.5, Math.max(1, peak * height));
  };

  const start = async () => {
    let stream = null, context = null;
    try {
      // Not what calls need: a voice should sound as it is.
      const audio = { echoCancellation: false, noiseSuppression: false, autoGainControl: false };
      stream = await navigator.mediaDevices.getUserMedia({ audio });
      context = new AudioContext();
      await context.audioWorklet.addModule("static/recorder.js");
    } catch (error) {
      stream?.getTracks().forEach((track) => track.stop());
      studio.tell(studio.said("noMicrophone"));
      return;
    }
    const node = new AudioWorkletNode(context, "recorder");
    context.createMediaStreamSource(stream).connect(node).connect(context.destination);
    recording = { stream, context, blocks: [], peak: 0 };
    node.port.onmessage = ({ data }) => {
      if (!recording) return;
      recording.blocks.push(data);
      drawLevel(data);
    };
    show();
  };
  const stop = async () => {
    const { stream, context, blocks, peak } = recording;
    recording = null;
    stream.getTracks().forEach((track) => track.stop());
    const rate = context.sampleRate;
    await context.close();
    level.clearRect(0, 0, level.canvas.width, level.canvas.height);
    const take = wav(blocks, rate);
    show();
    if (!await studio.upload(`takes?sentence=${place + 1}&lang=${studio.lang}`, take)) return;
    if (last) URL.revokeObjectURL(last);
    last = URL.createObjectURL(take);
    sentences[place].done = true;
    if (peak < 0.03) studio.tell(studio.said("tooQuiet"));
    else if (peak > 0.99) studio.tell(studio.said("tooLoud"));
    else if (place + 1 < sentences.length) place += 1;
    show();
    await studio.soon("recordings");
  };

  at("record").addEventListener("click", () => recording ? stop() : start());
  at("hear").addEventListener("click", () => { if (last) new Audio(last).play(); });
  at("previous").addEventListener("click", () => goTo(place - 1));
  at("next").addEventListener("click", () => goTo(place + 1));
  document.addEventListener("language", () => { at("sentence").lang = document.getElementById("language").value; load(); });
  load();
})();
