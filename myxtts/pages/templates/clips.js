// Clips: one sound at a time, the waveform as its progress, and everything by keyboard alone.
(() => {
  const player = new Audio();
  let playing = "";
  const show = () => {
    for (const button of document.querySelectorAll("[data-play]")) {
      const is = button.dataset.play === playing && !player.paused;
      button.classList.toggle("playing", is);
      const played = button.parentElement.querySelector(".played");
      if (played && !is) played.style.clipPath = "";
    }
  };
  const draw = () => {
    if (player.paused) return;
    const button = document.querySelector(`[data-play="${CSS.escape(playing)}"]`);
    const played = button?.parentElement.querySelector(".played");
    const share = player.duration ? player.currentTime / player.duration : 0;
    if (played) played.style.clipPath = `inset(0 ${100 * (1 - share)}% 0 0)`;
    requestAnimationFrame(draw);
  };
  const play = async (address) => {
    if (address === playing && !player.paused) { player.pause(); return; }
    if (address !== playing || player.ended) { player.src = address; playing = address; }
    try { await player.play(); } catch { return; }  // another was asked for, or it is gone
    draw();
  };
  for (const kind of ["play", "pause", "ended"]) player.addEventListener(kind, show);
  document.addEventListener("replaced", show);

  // -- texts --

  const save = async (area) => {
    if (area.value.trim() === area.defaultValue.trim()) return;
    const row = area.closest("li"), text = area.value;
    if (!await studio.send("write", { key: area.dataset.text, text })) return;
    area.defaultValue = text;
    row.classList.add("saved");
    setTimeout(() => row.classList.remove("saved"), 1200);
  };
  document.addEventListener("focusout", (event) => {
    if (event.target.matches?.("textarea[data-text]")) save(event.target);
  });

  // -- keyboard --

  const rows = () => [...document.querySelectorAll(".clips > li[data-key]")];
  const goTo = async (row, by) => {
    const all = rows(), place = all.indexOf(row) + by;
    if (place >= 0 && place < all.length) return all[place].focus();
    const list = row.parentElement, page = studio.looking.page + by;
    if (page < 1 || page > Number(list.dataset.pages)) return;
    studio.looking.page = page;
    await studio.soon("clips");
    const fresh = rows();
    fresh[by > 0 ? 0 : fresh.length - 1]?.focus();
  };
  document.addEventListener("focusin", (event) => {
    const row = event.target.closest?.(".clips > li");
    if (row) for (const each of rows()) each.tabIndex = each === row ? 0 : -1;
  });
  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-play]");
    if (button) play(button.dataset.play);
    const wave = event.target.closest(".wave");
    if (!wave) return;
    const address = wave.parentElement.querySelector("[data-play]").dataset.play;
    const box = wave.getBoundingClientRect(), share = (event.clientX - box.left) / box.width;
    play(address).then(() => { if (player.duration) player.currentTime = share * player.duration; });
  });
  document.addEventListener("keydown", async (event) => {
    const area = event.target.closest("textarea[data-text]"), row = event.target.closest(".clips > li[data-key]");
    if (!row || event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
    if (area) {
      if (event.key === "Enter" && !event.shiftKey) { event.preventDefault(); await save(area); await goTo(row, 1); }
      else if (event.key === "Escape") { event.preventDefault(); area.value = area.defaultValue; row.focus(); }
      return;
    }
    const steps = { ArrowDown: 1, ArrowUp: -1 };
    if (event.key in steps) { event.preventDefault(); await goTo(row, steps[event.key]); }
    else if (event.key === " " && event.target === row) { event.preventDefault(); play(row.querySelector("[data-play]").dataset.play); }
    else if (event.key === "Enter" && event.target === row) {
      event.preventDefault();
      const text = row.querySelector("textarea:not(:disabled)");
      text?.focus();
      text?.setSelectionRange(text.value.length, text.value.length);
    } else if (event.code === "KeyD" && event.target === row) {  // wherever D is: also on a Persian keyboard
      event.preventDefault();
      const button = row.querySelector("[data-action]");
      const next = row.nextElementSibling?.dataset.key ?? row.previousElementSibling?.dataset.key;
      const key = studio.looking.show === "all" ? row.dataset.key : next;
      await studio.send(button.dataset.action, { key: row.dataset.key });
      await studio.soon("clips");
      document.querySelector(`.clips > li[data-key="${CSS.escape(key ?? "")}"]`)?.focus();
    }
  });
})();
