import type { Partition } from '../../src/store/partition.ts';
import { readScripts, standalone } from '../../src/store/script_source.ts';

/** Returns the number of script calls that Redis has served since it started, by `INFO commandstats`. */
export async function scriptCalls(store: Partition): Promise<number> {
  const stats = await store.redis.info('commandstats');
  const calls = [...stats.matchAll(/^cmdstat_(?:eval|evalsha|fcall):calls=(\d+)/gm)];
  return calls.reduce((sum, [, count]) => sum + Number(count), 0);
}

/**
 * Returns the number of commands that Redis has served since it started. Commands that scripts call count, `INFO` does
 * not.
 */
export async function commands(store: Partition): Promise<number> {
  const stats = await store.redis.info('commandstats');
  const calls = [...stats.matchAll(/^cmdstat_(?!info)[^:]+:calls=(\d+)/gm)];
  return calls.reduce((sum, [, count]) => sum + Number(count), 0);
}

/** Loads all scripts into Redis, because the first call of an unknown script takes two commands. */
export async function loadScripts(store: Partition): Promise<void> {
  await store.prepare();
  for (const script of readScripts()) await store.redis.script('LOAD', standalone(script));
}
