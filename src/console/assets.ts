import { hash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { basename, join } from 'node:path';
import { brotliCompressSync, gzipSync } from 'node:zlib';
import { z } from 'zod';
import { BusError } from '../errors.ts';
import { ANYONE, type Route, route } from '../routing/route.ts';

const YEAR_SECONDS = 31_536_000;
const TYPES = { js: 'text/javascript; charset=utf-8', css: 'text/css; charset=utf-8' } as const;

const own = (name: string) => join(import.meta.dirname, 'assets', name);
const resolve = createRequire(import.meta.url).resolve;

interface Asset {
  type: string;
  plain: Buffer;
  /** The content compressed by Brotli and by gzip, each made when a request first asks for it. */
  coded: Partial<Record<'br' | 'gzip', Buffer>>;
}

const byUrl = new Map<string, Asset>();

/** The URL of each script and style. The URL contains a hash of the file, so browsers may keep the file for ever. */
export const ASSET_URLS = {
  'htmx.js': load(resolve('htmx.org/dist/htmx.min.js'), 'htmx.js'),
  'uplot.js': load(resolve('uplot/dist/uPlot.iife.min.js'), 'uplot.js'),
  'uplot.css': load(resolve('uplot/dist/uPlot.min.css'), 'uplot.css'),
  'plots.js': load(own('plots.js')),
  'typed.js': load(own('typed.js')),
  'console.js': load(own('console.js')),
  'console.css': load(own('console.css')),
};

function load(path: string, name = basename(path)): string {
  const plain = readFileSync(path);
  const url = `/console/assets/${hash('sha256', plain).slice(0, 12)}/${name}`;
  byUrl.set(url, { type: name.endsWith('.js') ? TYPES.js : TYPES.css, plain, coded: {} });
  return url;
}

const COMPRESS = { br: brotliCompressSync, gzip: gzipSync } as const;

/** Returns the route `GET /console/assets/…`, which gives everybody the scripts and styles of the console. */
export function assetRoute(): Route {
  return route('GET /console/assets/:hash/:name', ANYONE, {
    isPublic: true,
    answers: { 200: z.string() },
    errors: ['not_found'],
    async handle({ path, headers }) {
      const asset = byUrl.get(path);
      if (!asset) throw new BusError('not_found', `there is no ${path}; reload the page`);
      const accepts = String(headers['accept-encoding'] ?? '');
      const coding = (['br', 'gzip'] as const).find((each) => new RegExp(`\\b${each}\\b`).test(accepts));
      const fields = {
        'Content-Type': asset.type,
        'Cache-Control': `public, max-age=${YEAR_SECONDS}, immutable`,
        Vary: 'Accept-Encoding',
      };
      if (!coding) return { status: 200, headers: fields, body: asset.plain };
      asset.coded[coding] ??= COMPRESS[coding](asset.plain);
      return { status: 200, headers: { ...fields, 'Content-Encoding': coding }, body: asset.coded[coding] };
    },
  });
}
