import { z } from 'zod';
import { ok } from '../route.ts';
import { Exposition } from './exposition.ts';
import type { FigureParts } from './figures.ts';

export const METRICS_TEXT = z.string();

export function metricsApi(parts: FigureParts) {
  const exposition = new Exposition(parts);
  return {
    async show() {
      const headers = { 'Content-Type': exposition.contentType, 'Cache-Control': 'no-store' };
      return { ...ok(await exposition.text()), headers };
    },
  };
}
