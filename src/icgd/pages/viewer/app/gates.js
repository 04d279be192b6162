// The gates of a stage: a dot each, grouped by the kind of step they belong to; routes of open ones.

import { el, keyed, setText } from "./dom.js";

// "forward:top/out>query_forward" belongs to group "forward"; a name without a colon to none.
export function groupGates(gates) {
  const groups = new Map();
  gates.forEach((name, i) => {
    const colon = name.indexOf(":");
    const group = colon > 0 ? name.slice(0, colon) : "";
    if (!groups.has(group)) groups.set(group, []);
    groups.get(group).push({ index: i, route: colon > 0 ? name.slice(colon + 1) : name });
  });
  return groups;
}

export function routeText(route) {
  return route.replace(">", " → ").replace(/^raise$/, "raise flags").replace(/^mark-/, "mark ");
}

export function createGates(gates) {
  const groups = groupGates(gates);
  const columns = el("div", { class: "gate-groups" });
  const routes = el("div", { class: "routes" });
  const element = el("div", { class: "gates" }, columns, routes);
  // Names of units without a group say little; dots and their titles do.
  routes.hidden = groups.size === 1 && groups.has("");

  const parts = [...groups].map(([group, members]) => {
    const dots = members.map(({ route }) => el("span", { class: "dot", title: routeText(route) }));
    const tally = el("span", { class: "tally" });
    const name = el("span", { class: "gate-group-name" }, group || members.map((m) => m.route).join(", "));
    const row = el("span", { class: "dots", "aria-hidden": "true" }, ...dots);
    const box = el("div", { class: "gate-group" }, name, row, tally);
    columns.append(box);
    return { group, members, dots, tally, box };
  });

  function update(open, kind) {
    element.hidden = !gates.length;
    const passing = [];
    for (const { group, members, dots, tally, box } of parts) {
      let n = 0;
      members.forEach(({ index, route }, i) => {
        const isOpen = open[index] === "1";
        dots[i].classList.toggle("open", isOpen);
        if (!isOpen) return;
        n++;
        passing.push(route);
      });
      const told = open.length > 0;
      setText(tally, told ? (n ? `${n} of ${members.length} open` : `${members.length} shut`) : "not told");
      box.classList.toggle("active", n > 0);
      box.classList.toggle("own", group === kind);
      box.dataset.group = group;
      box.dataset.open = n;
    }
    keyed(routes, passing.map((route, i) => `${i} ${route}`), (key) => ({
      element: el("code", { class: "route" }, routeText(key.slice(key.indexOf(" ") + 1))),
    }));
  }
  return { element, update };
}
