"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const dark = window.matchMedia("screen and (prefers-color-scheme: dark)");
const narrow = window.matchMedia("(max-width: 40rem)");
function shade(trace) {
  const colour = dark.matches && data.dark[trace.line.color] || trace.line.color;
  return {...trace, line: {...trace.line, color: colour}, marker: {...trace.marker, color: colour}};
}
// Whole powers of ten, about eight of them.
const decades = range => Math.max(1, Math.ceil((range[1] - range[0]) / 8));
function draw() {
  const ink = dark.matches ? "#e8ebee" : "#1c2024", line = dark.matches ? "#3a424a" : "#d8dde2";
  const ground = dark.matches ? "#1e2327" : "#ffffff", size = narrow.matches ? 11 : 13;
  const axis = {gridcolor: line, linecolor: line, zerolinecolor: line, automargin: true, exponentformat: "power"};
  for (const plot of data.plots) {
    Plotly.react("plot-" + plot.id, plot.traces.map(shade), {
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", font: {color: ink, size: size},
      margin: {l: narrow.matches ? 52 : 70, r: 16, t: 8, b: 50},
      legend: {orientation: "h", itemsizing: "constant", y: -0.2, yanchor: "top", x: 0, xanchor: "left"},
      modebar: {bgcolor: "rgba(0,0,0,0)", color: dark.matches ? "#7d8791" : "#9aa4ae", activecolor: ink},
      hovermode: plot.many ? "closest" : "x unified",
      hoverlabel: {font: {color: ink}, bgcolor: ground, bordercolor: line},
      xaxis: {...axis, title: {text: plot.x, standoff: 8}, type: plot.log_x ? "log" : "linear",
              rangemode: plot.zero_x ? "tozero" : "normal", ...(plot.log_x ? {dtick: 1} : {})},
      yaxis: {...axis, title: {text: plot.y, standoff: 6}, type: plot.log_y ? "log" : "linear",
              rangemode: plot.zero_y ? "tozero" : "normal",
              ...(plot.range_y ? {range: plot.range_y, dtick: decades(plot.range_y)} : {})},
    }, {responsive: true, displaylogo: false, displayModeBar: narrow.matches ? false : "hover",
        showSendToCloud: false});
  }
}
draw();
dark.addEventListener("change", draw);
narrow.addEventListener("change", draw);
