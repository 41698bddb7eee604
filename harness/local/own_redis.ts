import { randomBytes } from 'node:crypto';
import { readFileSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { ReplyError } from 'ioredis';
import { BootError } from '../../src/errors.ts';
import { takeLock } from '../process_lock.ts';
import { PrivateRedis } from '../redis/private_redis.ts';
import { RedisConnection, type RedisReply } from '../redis/redis_call.ts';

/** Name of a launcher in CLIENT LIST. Unlike a file, a connection always ends with its process. */
const launcherName = 'bin/start';

/** The Redis of one data directory. It ends with the launcher. */
export interface OwnRedis {
  url: string;
  /** True if an earlier launcher crashed and left this Redis running. */
  adopted: boolean;
  /** Settles when the Redis has ended, also by `stop`. */
  gone: Promise<unknown>;
  /** Shuts the Redis down, with its AOF written. */
  stop(): Promise<void>;
}

/**
 * Starts a Redis with its files in `dir`. Takes over a Redis that a crashed launcher left there, because two
 * servers would ruin the AOF. Throws BootError if a living launcher has it.
 */
export async function startOwnRedis(dir: string): Promise<OwnRedis> {
  const release = lock(dir);
  try {
    return await findOrStart(dir);
  } finally {
    release();
  }
}

/**
 * Keeps other launchers from looking for a Redis in `dir` until this one has named its connection. Returns a function
 * that ends the lock.
 */
function lock(dir: string): () => void {
  const path = join(dir, 'starting.lock');
  const release = takeLock(path);
  if (release) return release;
  throw new BootError(
    `bin/start is just starting with the data in ${dir}: stop that one first, or delete ${path}`,
  );
}

async function findOrStart(dir: string): Promise<OwnRedis> {
  const urlFile = join(dir, 'redis.url');
  const left = await findLeft(urlFile, dir);
  if (left) {
    await waitUntilLoaded(left.connection);
    await left.connection.call('CLIENT', 'SETNAME', launcherName);
    return {
      url: left.url,
      adopted: true,
      gone: left.connection.closed,
      stop: () => shutDown(left.connection),
    };
  }
  const redis = await PrivateRedis.start({
    dir,
    // The password is needed only with a port, which is used if the path of `dir` is too long for a unix
    // socket.
    password: randomBytes(24).toString('base64url'),
    config: { appendonly: 'yes', appendfsync: 'everysec' },
  });
  writeFileSync(urlFile, redis.url);
  const connection = await RedisConnection.open(redis.url);
  await connection.call('CLIENT', 'SETNAME', launcherName);
  const stop = async () => {
    await redis.stop();
    rmSync(urlFile, { force: true });
  };
  return { url: redis.url, adopted: false, gone: connection.closed, stop };
}

async function findLeft(
  urlFile: string,
  dir: string,
): Promise<{ url: string; connection: RedisConnection } | undefined> {
  let connection: RedisConnection | undefined;
  let clients: RedisReply;
  let url: string;
  try {
    url = readFileSync(urlFile, 'utf8');
    connection = await RedisConnection.open(url);
    const [, itsDir] = (await connection.call('CONFIG', 'GET', 'dir')) as string[];
    if (itsDir !== realpathSync(dir)) throw new Error('a Redis of somebody else listens there now');
    clients = await connection.call('CLIENT', 'LIST');
  } catch {
    connection?.close();
    return undefined;
  }
  if (!String(clients).includes(` name=${launcherName} `)) return { url, connection };
  connection.close();
  throw new BootError(`bin/start already runs with the data in ${dir}: stop that one first`);
}

async function waitUntilLoaded(connection: RedisConnection): Promise<void> {
  for (;;) {
    try {
      await connection.call('PING');
      return;
    } catch (error) {
      if (!(error instanceof ReplyError && (error as Error).message.startsWith('LOADING'))) throw error;
    }
    await sleep(20);
  }
}

// Shuts down by command rather than by signal: where containers share a directory, the process id that Redis
// tells may belong to another process here.
async function shutDown(connection: RedisConnection): Promise<void> {
  await connection.call('SHUTDOWN').catch(() => {}); // it answers by closing the connection
  await connection.closed;
}
