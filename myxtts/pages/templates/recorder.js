// Runs beside the page: hands over what the microphone hears, block by block.
registerProcessor("recorder", class extends AudioWorkletProcessor {
  process(inputs) {
    if (inputs[0]?.[0]?.length) this.port.postMessage(inputs[0][0].slice());
    return true;
  }
});
