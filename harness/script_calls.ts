import { readScripts } from '../src/store/script_source.ts';
import type { Store } from '../src/store/store.ts';

/** How many script calls Redis has served since it started, by `INFO commandstats`. */
export async function scriptCalls(store: Store): Promise<number> {
  const stats = await store.redis.info('commandstats');
  const calls = [...stats.matchAll(/^cmdstat_(?:eval|evalsha|fcall):calls=(\d+)/gm)];
  return calls.reduce((sum, [, count]) => sum + Number(count), 0);
}

/** How many commands, those of scripts among them, Redis has served since it started; without those of `INFO`. */
export async function commands(store: Store): Promise<number> {
  const stats = await store.redis.info('commandstats');
  const calls = [...stats.matchAll(/^cmdstat_(?!info)[^:]+:calls=(\d+)/gm)];
  return calls.reduce((sum, [, count]) => sum + Number(count), 0);
}

/** Has Redis know all scripts: the first call of one it does not know takes two commands. */
export async function loadScripts(store: Store): Promise<void> {
  await store.prepare();
  for (const { lua } of readScripts()) await store.redis.script('LOAD', lua);
}
