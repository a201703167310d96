// posedu.live(name, start) calls start({figure, find, numbers}) for each figure of that
// name. start returns draw(values, changed), which redraws the figure and returns its
// outputs' texts by name, and a `summary`. `changed` names the moved control, if any.
window.posedu ??= {
  live(name, start) {
    const fresh = `.posedu-explorable[data-name="${name}"]:not([data-live])`;
    document.querySelectorAll(fresh).forEach((figure) => {
      figure.dataset.live = "";
      const find = (selector) => figure.querySelector(selector);
      const controls = [...figure.querySelectorAll(".controls [name]")];
      const numbers = JSON.parse(figure.dataset.numbers || "null");
      const read = (control) => {
        if (control.type === "range") return control.valueAsNumber;
        if (control.type === "button") return control.getAttribute("aria-pressed") === "true";
        return control.value;
      };
      const draw = start({ figure, find, numbers });
      const update = (changed) => {
        const values = controls.map((control) => [control.name, read(control)]);
        const shown = draw(Object.fromEntries(values), changed);
        for (const [key, text] of Object.entries(shown)) {
          const place = find(`.${key}`);
          if (place.tagName === "OUTPUT") place.value = text;
          else if (place.textContent !== text) place.textContent = text;
          find(`input[name="${key}"]`)?.setAttribute("aria-valuetext", text);
        }
      };
      controls.forEach((control) => {
        const event = control.type === "button" ? "click" : "input";
        control.addEventListener(event, () => {
          if (event === "click") control.setAttribute("aria-pressed", !read(control));
          update(control.name);
        });
      });
      find(".controls").hidden = false;
      find(".static").hidden = true;
      update();
    });
  },
};
