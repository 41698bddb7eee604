import { collectDefaultMetrics, Registry } from 'prom-client';
import { z } from 'zod';
import { ALL, ok, type Route, route } from '../routing/route.ts';
import { SharedReading } from '../routing/shared_reading.ts';
import { exposition } from './exposition.ts';
import type { FigureParts } from './figures.ts';

/**
 * Interval at which the lag of the event loop is measured. The default of prom-client, 10 ms, takes 0.6 % of a core
 * when the process is idle.
 */
const EVENT_LOOP_SAMPLE_MS = 100;

/** `/metrics`: the counters, gauges and histograms of the bus, for Prometheus. */
export function metricsApi(parts: FigureParts): Route[] {
  return [route('GET /metrics', ALL, { answers: { 200: z.string() }, handle: metricsPage(parts) })];
}

/** Returns a function that answers with the counters, gauges and histograms of the bus and of this process. */
export function metricsPage(parts: FigureParts) {
  const own = new Registry();
  collectDefaultMetrics({ register: own, eventLoopMonitoringPrecision: EVENT_LOOP_SAMPLE_MS });
  const headers = { 'Content-Type': own.contentType };
  const text = new SharedReading(() => exposition(parts, own));
  return async () => ({ ...ok(await text.get()), headers });
}
