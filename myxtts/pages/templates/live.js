// The page asks for its newer self, and says when nobody answers.
(() => {
  const pollMs = Number(document.querySelector("main").dataset.pollMs);
  const shown = {};
  const update = async (part, address) => {
    const answer = await fetch(address + location.search, { cache: "no-store" });
    if (!answer.ok) throw new Error(answer.status);
    const html = await answer.text();
    const place = document.getElementById(part);
    // Whoever listens is not interrupted: a newer sentence waits until the player is still.
    const playing = [...place.querySelectorAll("audio")].some((player) => !player.paused);
    if (html !== shown[part] && !playing) place.innerHTML = shown[part] = html;
  };
  const ask = async () => {
    try {
      await update("run", "view");
      await update("voice", "voice");
      document.body.classList.remove("lost");
    } catch (error) { document.body.classList.add("lost"); }
    setTimeout(ask, pollMs);
  };
  setTimeout(ask, pollMs);
})();
