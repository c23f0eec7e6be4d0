// The studio's page: asks for those parts of itself that changed, and sends what is done in it.
// Whatever comes from elsewhere is shown as text; only the server's own parts are HTML.
const studio = (() => {
  const words = JSON.parse(document.body.dataset.said);
  const lang = document.documentElement.lang;
  const digits = (text) => lang === "fa"
    ? String(text).replace(/[0-9]/g, (digit) => "۰۱۲۳۴۵۶۷۸۹"[digit]).replace(".", "٫") : String(text);
  const said = (name, ...values) => values.reduce(
    (text, value) => text.replace("{}", digits(value)), words[name]);
  const marks = {};
  const looking = { show: "all", page: 1 };

  // The token has done its work: it belongs neither into the history nor into a screenshot.
  const address = new URL(location.href);
  address.searchParams.delete("token");
  address.searchParams.set("lang", lang);
  history.replaceState(null, "", address);

  // -- messages --

  const box = document.getElementById("said");
  let hushing = 0;
  const tell = (problem, remedy = "", { stays = false } = {}) => {
    box.querySelector("b").textContent = problem;
    box.querySelector("span").textContent = remedy;
    box.hidden = false;
    clearTimeout(hushing);
    if (!stays) hushing = setTimeout(() => { box.hidden = true; }, 8000);
  };
  document.getElementById("hush").addEventListener("click", () => { box.hidden = true; });

  const explain = async (answer) => {
    try { const error = await answer.json(); tell(error.problem, error.remedy, { stays: true }); }
    catch { tell(`${answer.status} ${answer.statusText}`); }
  };
  const send = async (what, given = {}) => {
    try {
      const answer = await fetch(`do/${what}?lang=${lang}`, {
        method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(given),
      });
      if (answer.ok) return true;
      await explain(answer);
    } catch { tell(said("lost")); }
    return false;
  };

  // -- parts --

  const busyWith = (place) => {
    const active = document.activeElement;
    if (place.contains(active) && active.matches("textarea, select, input")) return true;
    return [...place.querySelectorAll("audio")].some((player) => !player.paused);
  };
  const replace = (place, html) => {
    const values = [...place.querySelectorAll("input, select")].map((field) => [field.id, field.value]);
    const open = [...place.querySelectorAll("details")].map((one) => one.open);
    const active = place.contains(document.activeElement) ? document.activeElement : null;
    const key = active?.closest("[data-key]")?.dataset.key;
    const again = active && ["data-action", "data-show", "data-page", "data-play"]
      .filter((name) => active.hasAttribute(name))
      .map((name) => `[${name}="${CSS.escape(active.getAttribute(name))}"]`).join("");
    place.innerHTML = html;
    for (const [id, value] of values) {
      const field = id && place.querySelector(`#${CSS.escape(id)}`);
      if (field && value && (field.tagName !== "SELECT" || [...field.options].some((o) => o.value === value)))
        field.value = value;
    }
    const details = [...place.querySelectorAll("details")];
    if (details.length === open.length) details.forEach((one, i) => { one.open = open[i]; });
    if (key) (place.querySelector(`li[data-key="${CSS.escape(key)}"]`) || place.querySelector(".clips > li"))?.focus();
    else if (again) place.querySelector(again)?.focus();
    document.dispatchEvent(new CustomEvent("replaced", { detail: place }));
  };
  const refresh = async ({ force = "" } = {}) => {
    const query = new URLSearchParams({ lang, ...looking });
    for (const [name, mark] of Object.entries(marks)) if (name !== force) query.append("known", `${name}:${mark}`);
    const answer = await fetch(`parts?${query}`, { cache: "no-store" });
    if (!answer.ok) throw new Error(answer.status);
    for (const [name, part] of Object.entries(await answer.json())) {
      const place = document.querySelector(`[data-part="${name}"]`);
      if (name !== force && busyWith(place)) continue;  // it is asked for again
      if (marks[name] !== part.mark) replace(place, part.html);
      marks[name] = part.mark;
    }
  };
  const poll = async () => {
    try {
      await refresh();
      if (document.body.classList.contains("lost")) box.hidden = true;
      document.body.classList.remove("lost");
    } catch {
      document.body.classList.add("lost");
      tell(said("lost"), "", { stays: true });
    }
    setTimeout(poll, document.hidden ? 5000 : 1000);
  };
  const soon = (force) => refresh({ force }).catch(() => {});

  // -- what buttons and forms do --

  const sure = (button) => {  // what cannot be undone takes a second press
    if (!button.dataset.sure || button.classList.contains("sure")) return true;
    const before = button.textContent;
    button.classList.add("sure");
    button.textContent = said("sure");
    setTimeout(() => { button.classList.remove("sure"); button.textContent = before; }, 3000);
    return false;
  };
  document.addEventListener("click", async (event) => {
    const button = event.target.closest("button");
    if (!button) return;
    const { action, show, page, key, name } = button.dataset;
    if (show) { looking.show = show; looking.page = 1; await soon("clips"); }
    else if (page) { looking.page = Number(page); await soon("clips"); }
    else if (action && sure(button)) {
      button.disabled = true;
      if (!await send(action, { ...(key && { key }), ...(name && { name }) })) button.disabled = false;
      await soon(key ? "clips" : "");
    }
  });
  document.addEventListener("submit", async (event) => {
    event.preventDefault();
    const form = event.target, button = event.submitter;
    if (button && !sure(button)) return;
    const given = Object.fromEntries(new FormData(form));
    given.anew = button?.name === "anew";
    if (button) button.disabled = true;
    if (await send(form.dataset.action, given) && form.dataset.action === "train") button?.blur();
    if (button) button.disabled = false;
    await soon("");
  });
  document.addEventListener("input", (event) => {
    const shown = document.querySelector(`output[for="${event.target.id}"]`);
    if (shown && event.target.id) shown.textContent =
      digits(event.target.id === "speed" ? Number(event.target.value).toFixed(2) : event.target.value);
  });
  document.getElementById("language").addEventListener("change", async (event) => {
    await send("language", { language: event.target.value });
    document.dispatchEvent(new CustomEvent("language", { detail: event.target.value }));
    await soon("clips");
  });

  // -- where one is --

  const steps = [...document.querySelectorAll(".step")];
  const mark = () => {
    const here = steps.findLast((step) => step.getBoundingClientRect().top < innerHeight / 3) ?? steps[0];
    for (const link of document.querySelectorAll("nav a")) {
      if (link.hash === `#${here.id}`) link.setAttribute("aria-current", "step");
      else link.removeAttribute("aria-current");
    }
  };
  document.addEventListener("scroll", mark, { passive: true });
  document.addEventListener("replaced", mark);
  mark();

  // -- uploads --

  const drop = document.getElementById("drop"), files = document.getElementById("files");
  const bar = document.getElementById("upload");
  const upload = (path, body, onShare = () => {}) => new Promise((resolve) => {
    const request = new XMLHttpRequest();
    request.open("POST", path);
    request.upload.onprogress = (event) => onShare(event.loaded / event.total);
    request.onload = () => {
      if (request.status === 200) return resolve(true);
      try { const error = JSON.parse(request.response); tell(error.problem, error.remedy, { stays: true }); }
      catch { tell(`${request.status} ${request.statusText}`); }
      resolve(false);
    };
    request.onerror = () => { tell(said("lost")); resolve(false); };
    request.send(body);
  });
  const uploadAll = async (list) => {
    for (const file of list) {
      tell(said("uploading", file.name), "", { stays: true });
      bar.hidden = false;
      const path = `recordings?${new URLSearchParams({ name: file.name, lang })}`;
      const here = await upload(path, file, (share) => { bar.value = share; });
      bar.hidden = true;
      if (!here) break;
      tell(said("uploaded", file.name));
      await soon("recordings");
    }
    files.value = "";
  };
  files.addEventListener("change", () => uploadAll([...files.files]));
  for (const kind of ["dragenter", "dragover"]) drop.addEventListener(kind, (event) => {
    event.preventDefault(); drop.classList.add("over");
  });
  for (const kind of ["dragleave", "drop"]) drop.addEventListener(kind, () => drop.classList.remove("over"));
  drop.addEventListener("drop", (event) => { event.preventDefault(); uploadAll([...event.dataTransfer.files]); });

  setTimeout(poll, 300);
  return { lang, looking, said, send, soon, tell, upload, digits };
})();
