import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { BusClient } from '../http/bus_client.ts';
import { keptClient } from './kept_client.ts';

const NAME = 'tour';

/** Returns the path of the file with the client. Every start that succeeded has left it in its directory. */
export function tourClientFile(dataDir: string): string {
  return join(dataDir, 'tour_client');
}

/**
 * Makes a client for trying out the bus, unless an earlier start has made it and it still exists. Returns the path of
 * the file with its `token:secret`.
 */
export async function makeTourClient(dataDir: string, busUrl: string, rootKey: string): Promise<string> {
  const file = tourClientFile(dataDir);
  const [token, secret] = existsSync(file) ? readFileSync(file, 'utf8').trim().split(':') : [];
  const kept = token && secret ? { token, secret } : undefined;
  const root = new BusClient(busUrl, { token: rootKey, secret: 'x' });
  const client = await keptClient(busUrl, root, NAME, kept);
  writeFileSync(file, `${client.token}:${client.secret}\n`);
  return file;
}
