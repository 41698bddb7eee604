import assert from 'node:assert/strict';
import { test } from 'node:test';
import { computedAt, forecast } from '../../src/console/subscribers_pages.ts';
import { html } from '../../src/html.ts';

const NOW_MS = Date.UTC(2026, 10, 1);
const QUEUED = {
  ...{ events: { sent: 0, queued: 2, oldest: NOW_MS - 5000 }, paused_at: null, health_points: 100 },
  lately: { rate: 0, success: null, drained_at: null, dropped_at: null, as_of: NOW_MS },
};
type Lately = Partial<Record<keyof (typeof QUEUED)['lately'], number | null>>;

function said(report: object, lately: Lately = {}): string {
  const whole = { ...QUEUED, ...report, lately: { ...QUEUED.lately, ...lately } };
  return html`${forecast(whole as never, NOW_MS)}`.text.replace(/<[^>]*>/g, '');
}

test('the forecast of a queue says in plain words what becomes of it', () => {
  assert.equal(said({}), 'keeps up');
  assert.equal(said({}, { success: 1 }), 'keeps up');
  assert.equal(said({ health_points: 94 }), 'does not shrink');
  assert.equal(said({}, { success: 0.9 }), 'does not shrink');
  assert.equal(said({}, { success: 0.9, drained_at: NOW_MS + 120_000 }), 'empty in 2 min');
  const [hours, past] = [NOW_MS + 3 * 3_600_000, NOW_MS - 1];
  assert.equal(said({}, { success: 0, dropped_at: hours }), 'drops may begin in 3 h');
  assert.equal(said({ paused_at: NOW_MS }), 'waits');
  assert.equal(said({ paused_at: NOW_MS }, { dropped_at: past }), 'drops may begin now');
});

test('below the subscribers, the page says over which time the rates are taken', () => {
  const text = html`${computedAt([QUEUED] as never, NOW_MS)}`.text;
  assert.match(text, /Delivered and Success are means in which the last minute counts most\./);
});
