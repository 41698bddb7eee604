import { html } from '../html.ts';
import { type GaugeReading, readGauges } from '../metrics/gauges.ts';
import { ALL, type Route } from '../route.ts';
import type { MemoryLimits } from '../store/memory.ts';
import type { Partitions } from '../store/partitions.ts';
import { bytes, count, duration, number } from './format.ts';
import { live } from './layout.ts';
import { page } from './page.ts';

export interface OverviewParts {
  partitions: Partitions;
  limits: MemoryLimits;
}

export function overviewPage({ partitions, limits }: OverviewParts): Route[] {
  return [
    page('/console', ALL, {
      async show() {
        const reading = await readGauges(partitions, limits);
        const events = reading.subscribers.reduce((sum, each) => sum + each.events, 0);
        const oldestMs = Math.max(0, ...reading.subscribers.map((each) => each.oldestMs));
        return {
          title: 'Overview',
          current: '/console',
          body: live(
            'overview',
            '/console',
            html`<h1>${sentence(reading, oldestMs)}</h1>
<dl class="figures">
<div><dt>Queued</dt><dd>${count(events, 'event')}</dd></div>
<div><dt>Oldest</dt><dd>${oldestMs > 0 ? duration(oldestMs) : '–'}</dd></div>
<div><dt>Subscribers</dt><dd>${number(reading.subscribers.length)}</dd></div>
<div><dt>Workers</dt><dd>${number(reading.workers)}</dd></div>
<div><dt>Memory</dt><dd>${bytes(reading.memory.used)}</dd></div>
</dl>`,
          ),
        };
      },
    }),
  ];
}

function sentence({ subscribers, workers }: GaugeReading, oldestMs: number): string {
  const failing = subscribers.filter(({ healthPoints = 100 }) => healthPoints < 100).length;
  if (workers === 0) return 'No worker is alive: nothing is delivered.';
  if (failing === 0) return 'All is well.';
  return `${count(failing, 'subscriber')} failed lately; the oldest event waits ${duration(oldestMs)}.`;
}
