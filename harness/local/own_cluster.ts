import { randomBytes } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { PrivateCluster } from '../redis/private_cluster.ts';
import type { PrivateRedis } from '../redis/private_redis.ts';
import { redisBinary } from '../redis/redis_binary.ts';
import { callRedis } from '../redis/redis_call.ts';
import { quote } from './welcome.ts';

const LOOK_EVERY_MS = 500;
/** Time after which a node that ended is started again. Until then its replica has time to take over. */
const AWAY_MS = 10_000;

/** A node of the cluster, as it was when it was last looked at. */
interface Node {
  redis: PrivateRedis;
  role: string;
  endedAtMs: number;
}

/** The cluster of bin/start. Nodes that were killed are started again. */
export class OwnCluster {
  readonly #cluster: PrivateCluster;
  readonly #nodes: Node[];
  readonly #passwordFile: string;
  readonly #say: (line: string) => void;
  readonly #stopping = new AbortController();
  #watching: Promise<void> = Promise.resolve();

  /** Starts a cluster whose password is in a file of `dataDir`, so that the user can log in too. */
  static async start(dataDir: string, say: (line: string) => void): Promise<OwnCluster> {
    // The password protects the ports from other users of the machine.
    const password = randomBytes(24).toString('base64url');
    const passwordFile = join(dataDir, 'redis_password');
    writeFileSync(passwordFile, `${password}\n`);
    const cluster = await PrivateCluster.start({ password });
    const roles = await Promise.all(cluster.nodes.map(roleOf));
    const nodes = cluster.nodes.map((redis, index) => ({ redis, role: roles[index] ?? '', endedAtMs: 0 }));
    return new OwnCluster(cluster, nodes, { passwordFile, say });
  }

  private constructor(
    cluster: PrivateCluster,
    nodes: Node[],
    { passwordFile, say }: { passwordFile: string; say: (line: string) => void },
  ) {
    this.#cluster = cluster;
    this.#nodes = nodes;
    this.#passwordFile = passwordFile;
    this.#say = say;
  }

  get url(): string {
    return this.#cluster.url;
  }

  get description(): string {
    const masters = this.#nodes.filter(({ role }) => role === 'master');
    const [control, , last] = masters as [Node, Node, Node];
    const cli = redisBinary().replace('server', 'cli');
    const { port } = new URL(control.redis.url);
    return `a private cluster with the masters
${masters.map((each) => `               ${nameOf(each)}`).join('\n')}
             Kill one, such as by \`kill -9 ${last.redis.pid}\`, and watch. Its replica takes over after two or three
             seconds. After ten seconds the killed node is back, as a replica. Until then publishes to topics of this
             master are answered 503, because no replica has what they store; other topics go on. Process
             ${control.redis.pid} has the clients too: if it is killed, all publishing waits until its replica has
             taken over. All data goes when bin/start stops. To look into it:
               REDISCLI_AUTH=$(cat ${quote(this.#passwordFile)}) ${cli} -c -p ${port} cluster nodes`;
  }

  /** Until `stop`, prints each change of a node's role, and starts nodes again that have ended. */
  watch(): void {
    this.#watching = this.#watch(this.#stopping.signal);
  }

  async stop(): Promise<void> {
    this.#stopping.abort();
    await this.#watching;
    await this.#cluster.stop();
  }

  async #watch(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      await Promise.all(this.#nodes.map((node) => this.#look(node)));
      await sleep(LOOK_EVERY_MS, undefined, { signal }).catch(() => {});
    }
  }

  async #look(node: Node): Promise<void> {
    const role = await roleOf(node.redis);
    if (role !== node.role) {
      node.role = role;
      if (role === '') node.endedAtMs = performance.now();
      this.#say(role === '' ? `${addressOf(node)} has ended` : `${nameOf(node)} is a ${role} now`);
    }
    if (role === '' && performance.now() - node.endedAtMs > AWAY_MS) await node.redis.restart();
  }
}

/** Resolves with `master` or `replica`; with an empty text if the node has ended. */
async function roleOf(redis: PrivateRedis): Promise<string> {
  const reply = await callRedis(redis.url, 'ROLE').catch(() => undefined);
  const [role] = Array.isArray(reply) ? reply : [''];
  return role === 'slave' ? 'replica' : String(role);
}

function addressOf({ redis }: Node): string {
  return new URL(redis.url).host;
}

function nameOf(node: Node): string {
  return `${addressOf(node)} (process ${node.redis.pid})`;
}
