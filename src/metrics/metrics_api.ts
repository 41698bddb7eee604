import { z } from 'zod';
import { ALL, ok, type Route, route } from '../routing/route.ts';
import { sharingNext } from '../sharing.ts';
import { type ExpositionParts, exposition } from './exposition.ts';

const HEADERS = { 'Content-Type': 'text/plain; version=0.0.4; charset=utf-8' };

/** `/metrics`: the counters, gauges and histograms of the bus and of this process, for Prometheus. */
export function metricsApi(parts: ExpositionParts): Route[] {
  const text = sharingNext(() => exposition(parts));
  const handle = async () => ({ ...ok(await text()), headers: HEADERS });
  return [route('GET /metrics', ALL, { answers: { 200: z.string() }, handle })];
}
