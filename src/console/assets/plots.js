// Draws the plots of the console with uPlot. Each figure has its values in `data-plot`.

/** Colours of lines that have one of their own, as names of custom properties. */
const COLOURS = { delivered: '--good', failed: '--bad' };
const SCALED = { bytes: [1024, ['', ' KiB', ' MiB', ' GiB']], other: [1000, ['', ' k', ' M', ' G']] };

/** Lengths of time in seconds, and their names. */
const TIMES = [
  [3600, ' h'],
  [60, ' min'],
  [1, ' s'],
  [0.001, ' ms'],
];

function writtenTime(seconds) {
  const [length, name] = TIMES.find(([length]) => seconds >= length) ?? TIMES[2];
  return `${Number((seconds / length).toPrecision(3))}${name}`;
}

function written(value, unit) {
  if (unit === 's' || unit === 'ms') return writtenTime(unit === 's' ? value : value / 1000);
  const [step, names] = unit === 'bytes' ? SCALED.bytes : SCALED.other;
  let [rest, name] = [value, 0];
  while (Math.abs(rest) >= step && name < names.length - 1) [rest, name] = [rest / step, name + 1];
  return `${Number(rest.toPrecision(3))}${names[name]}`;
}

const CLOCK = new Intl.DateTimeFormat(undefined, { hour: '2-digit', minute: '2-digit', hourCycle: 'h23' });
const MOMENT = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'medium' });
/** Distances between the ticks of an axis of bytes. */
const POWERS = Array.from({ length: 50 }, (_, power) => 2 ** power);

/** The drawn plots, by their figures. */
const drawn = new Map();

function dataOf({ start, step, lines }) {
  const times = lines[0].values.map((_, index) => (start + index * step) / 1000);
  return [times, ...lines.map(({ values }) => values)];
}

/** Returns a colour of the style sheet as a canvas needs it. */
function colour(place, name) {
  place.style.color = `var(${name})`;
  return getComputedStyle(place).color;
}

function draw(figure) {
  const place = figure.querySelector('.plot');
  const given = JSON.parse(figure.dataset.plot);
  const [dim, line] = [colour(place, '--dim'), colour(place, '--line')];
  const axis = { stroke: dim, grid: { stroke: line, width: 1 }, ticks: { stroke: line, width: 1 } };
  const times = { ...axis, values: (_, ticks) => ticks.map((each) => CLOCK.format(each * 1000)) };
  const amounts = {
    ...{ ...axis, size: 75, values: (_, ticks) => ticks.map((each) => written(each, given.unit)) },
    ...(given.unit === 'bytes' && { incrs: POWERS }),
  };
  const series = given.lines.map(({ name }) => ({
    label: name,
    stroke: colour(place, COLOURS[name] ?? '--accent'),
    width: 1.5,
    value: (_, value) => (value === null ? '–' : written(value, given.unit)),
  }));
  place.replaceChildren();
  const plot = new window.uPlot(
    {
      ...{ width: place.clientWidth, height: 160, cursor: { y: false }, legend: { live: true } },
      scales: { y: { range: (_, _least, most) => [0, most > 0 ? most * 1.1 : 1] } },
      axes: [times, amounts],
      series: [{ value: (_, time) => (time === null ? '–' : MOMENT.format(time * 1000)) }, ...series],
    },
    dataOf(given),
    place,
  );
  drawn.set(figure, { plot, text: figure.dataset.plot });
}

/** Draws new plots, and gives new figures to those that are drawn. */
function drawAll() {
  for (const [figure, { plot }] of drawn) {
    if (figure.isConnected) continue;
    plot.destroy();
    drawn.delete(figure);
  }
  for (const figure of document.querySelectorAll('figure[data-plot]')) {
    const known = drawn.get(figure);
    if (!known) draw(figure);
    else if (known.text !== figure.dataset.plot) {
      known.text = figure.dataset.plot;
      known.plot.setData(dataOf(JSON.parse(known.text)));
    }
  }
}
function drawAnew() {
  for (const { plot } of drawn.values()) plot.destroy();
  drawn.clear();
  drawAll();
}
drawAll();
document.addEventListener('htmx:after:swap', drawAll);
addEventListener('resize', drawAnew);
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', drawAnew);
