// A file opened from disk may have no storage and no clipboard: the page then does without one and
// selects the text instead of the other.
(() => {
  const root = document.documentElement;
  try { const kept = localStorage.getItem("theme"); if (kept) root.dataset.theme = kept; }
  catch (error) { /* no storage */ }
  document.addEventListener("click", async (event) => {
    const button = event.target.closest("button");
    if (!button) return;
    if (button.id === "theme") {
      const dark = getComputedStyle(root).colorScheme === "dark";
      root.dataset.theme = dark ? "light" : "dark";
      try { localStorage.setItem("theme", root.dataset.theme); } catch (error) { /* no storage */ }
    } else if (button.dataset.copied) {
      const code = button.parentElement.querySelector("code");
      try { await navigator.clipboard.writeText(code.textContent); }
      catch (error) {
        getSelection().selectAllChildren(code);
        if (!document.execCommand("copy")) return;
      }
      const before = button.textContent;
      button.textContent = button.dataset.copied;
      setTimeout(() => { button.textContent = before; }, 1500);
    }
  });
})();
