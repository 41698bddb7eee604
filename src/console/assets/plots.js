// Draws the plots of the console with uPlot. Each `<figure>` has the values of its plot as JSON in `data-plot`.

/** Lines with a colour of their own, each with the CSS property that has the colour. Other lines have `--accent`. */
const COLOURS = { delivered: '--good', failed: '--bad' };
const SCALED = { bytes: [1024, ['', ' KiB', ' MiB', ' GiB']], other: [1000, ['', ' k', ' M', ' G']] };

/**
 * Units of time, each with its length in seconds and its name. Then come the length and the name of the smaller unit
 * that is written after it.
 */
const TIMES = [
  [86_400, 'd', 3600, 'h'],
  [3600, 'h', 60, 'min'],
  [60, 'min', 1, 's'],
];

/** Writes a time such as 12 ms, 4.5 s, 3 min 20 s, 2 h, or 1 d 6 h. */
function writtenTime(seconds) {
  if (seconds > 0 && seconds < 0.9995) return `${Number((seconds * 1000).toPrecision(3))} ms`;
  if (seconds < 59.95) return `${Number(seconds.toPrecision(3))} s`;
  const [length, name, part, partName] = TIMES.find(([length]) => Math.round(seconds) >= length);
  const parts = Math.round(seconds / part);
  const [whole, rest] = [Math.floor((parts * part) / length), parts % (length / part)];
  return rest === 0 ? `${whole} ${name}` : `${whole} ${name} ${rest} ${partName}`;
}

function written(value, unit) {
  if (unit === 's' || unit === 'ms') return writtenTime(unit === 's' ? value : value / 1000);
  const [step, names] = unit === 'bytes' ? SCALED.bytes : SCALED.other;
  const rounded = (number) => Number(number.toPrecision(3));
  let [rest, name] = [value, 0];
  // Compares the number both exactly and rounded, as it would be written. Because of its rounded value, 999,960 is 1 M
  // and not 1000 k. Because of its exact value, 1024 KiB is 1 MiB, although its rounded value is 1020.
  const isLong = () => Math.max(Math.abs(rest), Math.abs(rounded(rest))) >= step;
  while (isLong() && name < names.length - 1) [rest, name] = [rest / step, name + 1];
  return `${rounded(rest)}${names[name]}`;
}

const CLOCK = new Intl.DateTimeFormat(undefined, { hour: '2-digit', minute: '2-digit', hourCycle: 'h23' });
const DAY = new Intl.DateTimeFormat(undefined, { month: 'short', day: 'numeric' });
const MOMENT = new Intl.DateTimeFormat(undefined, {
  ...{ month: 'short', day: 'numeric', hour: 'numeric', minute: '2-digit', second: '2-digit' },
  timeZoneName: 'short',
});
/** Writes a time at an axis: its hour and minute, or at midnight its day. */
function clock(seconds) {
  const time = new Date(seconds * 1000);
  return (time.getHours() + time.getMinutes() === 0 ? DAY : CLOCK).format(time);
}
/** Distances that an axis of bytes may have between its ticks. */
const POWERS = Array.from({ length: 50 }, (_, power) => 2 ** power);

/** Distances of a second and more that an axis of time may have between its ticks, in seconds. */
const LONG_TIMES = [
  ...[1, 2, 5, 10, 20, 30],
  ...[1, 2, 5, 10, 20, 30].map((minutes) => minutes * 60),
  ...[1, 2, 3, 6, 12].map((hours) => hours * 3600),
  ...Array.from({ length: 10 }, (_, power) => 86_400 * 2 ** power),
];
/** Returns 1, 2 and 5 times each of five powers of ten, from the power `first`. */
function decimals(first) {
  const powers = Array.from({ length: 5 }, (_, index) => first + index);
  return powers.flatMap((power) => [1, 2, 5].map((each) => Number(`${each}e${power}`)));
}
/**
 * For each unit, the distances that an axis may have between its ticks. On axes with other units, uPlot chooses the
 * distances.
 */
const DISTANCES = {
  bytes: POWERS,
  s: [...decimals(-5), ...LONG_TIMES],
  ms: [...decimals(-2), ...LONG_TIMES.map((seconds) => seconds * 1000)],
};

/** The drawn plots, by their `<figure>` elements. */
const drawn = new Map();

function dataOf({ start, step, lines }) {
  const times = lines[0].values.map((_, index) => (start + index * step) / 1000);
  return [times, ...lines.map(({ values }) => values)];
}

/**
 * Returns the indices of the values that uPlot is to draw as dots, because no line touches them: the values before and
 * after them are unknown. Returns null if uPlot draws all values as dots, or if there are no such values.
 */
function lonely({ data }, line, isEachDrawn) {
  const values = data[line];
  const isKnown = (index) => (values[index] ?? null) !== null;
  const found = [...values.keys()].filter(
    (index) => isKnown(index) && !isKnown(index - 1) && !isKnown(index + 1),
  );
  return isEachDrawn || found.length === 0 ? null : found;
}

/** Returns a colour of the style sheet as an RGB value, because a canvas does not know CSS properties. */
function colour(place, name) {
  place.style.color = `var(${name})`;
  return getComputedStyle(place).color;
}

/** Returns the text of a value in the legend. `index` is null while the mouse points at no value. */
function shown(index, value, write) {
  if (index === null) return '';
  return value === null ? '–' : write(value);
}

function draw(figure) {
  const place = figure.querySelector('.plot');
  const given = JSON.parse(figure.dataset.plot);
  const [dim, line] = [colour(place, '--dim'), colour(place, '--line')];
  const axis = { stroke: dim, grid: { stroke: line, width: 1 }, ticks: { stroke: line, width: 1 } };
  const times = { ...axis, values: (_, ticks) => ticks.map(clock) };
  const amounts = {
    ...{ ...axis, size: 75, values: (_, ticks) => ticks.map((each) => written(each, given.unit)) },
    ...(DISTANCES[given.unit] && { incrs: DISTANCES[given.unit] }),
  };
  const series = given.lines.map(({ name }) => {
    const stroke = colour(place, COLOURS[name] ?? '--accent');
    return {
      ...{ label: name, stroke, width: 1.5, points: { fill: stroke, filter: lonely } },
      value: (_, value, _line, index) => shown(index, value, (each) => written(each, given.unit)),
    };
  });
  place.replaceChildren();
  const plot = new window.uPlot(
    {
      width: place.clientWidth,
      height: 160,
      cursor: { y: false },
      legend: { live: true },
      scales: { y: { range: (_, _least, most) => [0, most > 0 ? most * 1.1 : 1] } },
      axes: [times, amounts],
      series: [
        { value: (_, time, _line, index) => shown(index, time, (each) => MOMENT.format(each * 1000)) },
        ...series,
      ],
    },
    dataOf(given),
    place,
  );
  drawn.set(figure, { plot, text: figure.dataset.plot });
}

/**
 * Draws each `<figure>` that has no plot yet, updates plots whose values have changed, and removes plots whose
 * `<figure>` is gone.
 */
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
