import { type Content, type Html, html } from '../html.ts';
import type { Delivery } from '../records/delivery.ts';
import { outcomeOf } from './batch_parts.ts';
import { ago, count, duration } from './format.ts';

/**
 * Length of the timeline in units of the SVG. Browsers stretch the SVG to the width of the window. Text in it would be
 * stretched too, so there is none.
 */
const LENGTH = 1000;
/** Minimum length of an attempt's bar in the units of LENGTH. A shorter bar would be invisible. */
const MIN_LENGTH = 8;

type Tone = 'good' | 'bad' | 'dim';

interface Step {
  atMs: number;
  tone: Tone;
  name: string;
  details?: Content;
}

/**
 * Returns what happened to a batch: a line on which time runs to the right, and a list of the steps, the first on top.
 */
export function timeline(delivery: Delivery, nowMs: number): Html {
  const { opened_at: opened, ended_at: ended } = delivery;
  const endMs = Math.max(ended ?? nowMs, opened + 1);
  const shown = stepsOf(delivery).map(
    ({ atMs, tone, name, details }) =>
      html`<li class="${tone}"><b>${name}</b> ${ago(atMs, nowMs)} <span class="none"><span class="whole">${new Date(atMs).toISOString()}</span>${atMs > opened && `, ${duration(atMs - opened)} after it was opened`}</span>${details && html`<div>${details}</div>`}</li>`,
  );
  return html`<figure class="card story">${drawn(delivery, endMs)}<figcaption><span>opened</span><span>${duration(endMs - opened)}</span><span>${ended === null ? 'now' : 'ended'}</span></figcaption></figure>
<ol class="steps card">${shown}</ol>`;
}

function drawn(delivery: Delivery, endMs: number): Html {
  const { opened_at: opened } = delivery;
  const place = (atMs: number) =>
    Math.max(0, Math.min(LENGTH, ((atMs - opened) / (endMs - opened)) * LENGTH));
  const bar = (tone: string, fromMs: number, toMs: number, y: number, height: number) => {
    const length = Math.max(MIN_LENGTH, place(toMs) - place(fromMs));
    const x = Math.min(place(fromMs), LENGTH - length);
    return html`<rect class="${tone}" x="${x.toFixed(1)}" y="${y}" width="${length.toFixed(1)}" height="${height}"/>`;
  };
  const openUntil = delivery.closed_at ?? endMs;
  return html`<svg viewBox="0 0 ${LENGTH} 40" preserveAspectRatio="none" role="img" aria-label="The time line of the batch">${bar('wait', opened, endMs, 18, 4)}${bar('open', opened, openUntil, 14, 12)}${ownAttempts(delivery).map(({ at, duration_ms, reason }) => bar(reason === null ? 'good' : 'bad', at, at + duration_ms, 4, 32))}</svg>`;
}

/**
 * Returns the attempts since the batch was opened. A retried dead letter was opened anew, so its earlier attempts are
 * left out.
 */
function ownAttempts({ attempts, opened_at }: Delivery): Delivery['attempts'] {
  return attempts.filter(({ at }) => at >= opened_at);
}

const ENDINGS: Partial<Record<Delivery['state'], [name: string, tone: Tone]>> = {
  dead: ['Became a dead letter', 'bad'],
  dropped: ['Dropped', 'bad'],
};

function stepsOf(delivery: Delivery): Step[] {
  const { opened_at, closed_at, ended_at, state, reason, join } = delivery;
  const { attempt_count, first_attempt_at, last_attempt_at } = delivery;
  const attempts = ownAttempts(delivery);
  const earlier = delivery.attempts.filter(({ at }) => at < opened_at);
  const steps = earlier.map((each) => attemptStep(each, 'Attempt before the retry', join));
  steps.push({
    atMs: opened_at,
    tone: 'dim',
    name: earlier.length > 0 ? 'Put back into the queue' : 'Opened',
  });
  if (closed_at !== null)
    steps.push({ atMs: closed_at, tone: 'dim', name: 'Closed', details: 'It takes no more events.' });
  const isUnderWay = state === 'in_flight';
  const ended = attempt_count - Number(isUnderWay);
  const unknown = Math.max(0, ended - attempts.length);
  const hasFirst = attempts[0]?.at === first_attempt_at;
  const left: Step = {
    atMs: Math.max(first_attempt_at ?? 0, opened_at),
    tone: 'dim',
    name: `${count(unknown, 'attempt')} not kept`,
    details: 'The bus keeps the first and the last ones.',
  };
  if (unknown > 0 && !hasFirst) steps.push(left);
  for (const [index, attempt] of attempts.entries()) {
    const isFirst = index === 0 && hasFirst;
    steps.push(attemptStep(attempt, `Attempt ${isFirst ? 1 : unknown + index + 1}`, join));
    if (isFirst && unknown > 0) steps.push(left);
  }
  if (isUnderWay && last_attempt_at !== null)
    steps.push({
      atMs: last_attempt_at,
      tone: 'dim',
      name: `Attempt ${attempt_count}`,
      details: 'It is under way.',
    });
  const ending = ENDINGS[state];
  if (ending && ended_at !== null)
    steps.push({ atMs: ended_at, tone: ending[1], name: ending[0], details: reason });
  return steps;
}

function attemptStep(attempt: Delivery['attempts'][number], name: string, join: string | undefined): Step {
  const { at, duration_ms, reason, answer } = attempt;
  const outcome = reason ?? (join === undefined ? 'Taken' : 'The join has its events');
  return {
    atMs: at,
    tone: reason === null ? 'good' : 'bad',
    name: `${name}: ${outcomeOf(attempt, join)}`,
    details: html`${outcome}, after ${duration(duration_ms)}${answer && html`<pre tabindex="0">${answer}</pre>`}`,
  };
}
