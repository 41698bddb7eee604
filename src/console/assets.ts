import { hash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { brotliCompressSync, gzipSync } from 'node:zlib';
import { z } from 'zod';
import { BusError } from '../errors.ts';
import { ANYONE, type Route, route } from '../routing/route.ts';

const YEAR_SECONDS = 31_536_000;
const SCRIPT = 'text/javascript; charset=utf-8';
const STYLE = 'text/css; charset=utf-8';

const own = (name: string) => join(import.meta.dirname, 'assets', name);
const resolve = createRequire(import.meta.url).resolve;

const FILES = {
  'htmx.js': { path: resolve('htmx.org/dist/htmx.min.js'), type: SCRIPT },
  'uplot.js': { path: resolve('uplot/dist/uPlot.iife.min.js'), type: SCRIPT },
  'uplot.css': { path: resolve('uplot/dist/uPlot.min.css'), type: STYLE },
  'plots.js': { path: own('plots.js'), type: SCRIPT },
  'typed.js': { path: own('typed.js'), type: SCRIPT },
  'console.js': { path: own('console.js'), type: SCRIPT },
  'console.css': { path: own('console.css'), type: STYLE },
} as const;
type AssetName = keyof typeof FILES;

interface Asset {
  url: string;
  type: string;
  plain: Buffer;
  /** The content compressed by Brotli and by gzip, each made when a request first asks for it. */
  coded: Partial<Record<'br' | 'gzip', Buffer>>;
}

const ASSETS = Object.fromEntries(
  Object.entries(FILES).map(([name, file]) => [name, load(name, file)]),
) as Record<AssetName, Asset>;

/** The URL of each script and style. It has a hash of the content, so browsers may keep it for ever. */
export const ASSET_URLS = Object.fromEntries(
  Object.entries(ASSETS).map(([name, { url }]) => [name, url]),
) as Record<AssetName, string>;

function load(name: string, { path, type }: { path: string; type: string }): Asset {
  const plain = readFileSync(path);
  const url = `/console/assets/${hash('sha256', plain).slice(0, 12)}/${name}`;
  return { url, type, plain, coded: {} };
}

const COMPRESS = { br: brotliCompressSync, gzip: gzipSync } as const;

/** Returns the route `GET /console/assets/…`, which gives everybody the scripts and styles of the console. */
export function assetRoutes(): Route[] {
  const byUrl = new Map(Object.values(ASSETS).map((asset) => [asset.url, asset]));
  return [
    route('GET /console/assets/:hash/:name', ANYONE, {
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
    }),
  ];
}
