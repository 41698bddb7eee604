import { freePort } from '../processes/ports.ts';
import { PrivateRedis } from './private_redis.ts';
import { callRedis, type RedisReply } from './redis_call.ts';

/** Time after which other nodes take a silent node to have failed. */
const NODE_TIMEOUT_MS = 1000;

/** Settings of each node of a cluster. */
export interface NodeOptions {
  /** Further settings of redis.conf. */
  config?: Record<string, string>;
  /** The password of clients and of replicas. */
  password?: string;
}

/** A node of a PrivateCluster. */
export interface ClusterNode {
  redis: PrivateRedis;
  port: number;
  busPort: number;
  id: string;
}

/** Starts a node, which belongs to no cluster yet. */
export async function startNode({ config = {}, password = '' }: NodeOptions): Promise<ClusterNode> {
  const busPort = await freePort();
  const redis = await PrivateRedis.start({
    port: 0,
    password,
    config: {
      ...(password && { masterauth: password }),
      'cluster-enabled': 'yes',
      // By default the bus port is the port + 10,000, which may be taken or be no valid port.
      'cluster-port': String(busPort),
      'cluster-node-timeout': String(NODE_TIMEOUT_MS),
      // A node learns its own address when it meets another node, so the only node of a cluster would never learn it.
      'cluster-announce-ip': '127.0.0.1',
      'cluster-require-full-coverage': 'no',
      'repl-diskless-sync-delay': '0',
      ...config,
    },
  });
  const id = String(await callRedis(redis.url, 'CLUSTER', 'MYID'));
  return { redis, port: Number(new URL(redis.url).port), busPort, id };
}

/** Returns a function that sends a command to a node. */
export function callerOf({ redis }: ClusterNode): (...command: [string, ...string[]]) => Promise<RedisReply> {
  return (...command) => callRedis(redis.url, ...command);
}

/** Returns the masters of a slot in the reply to CLUSTER NODES. */
export function ownersOf(nodes: string, slot: number): { port: number; epoch: number }[] {
  return nodes.split('\n').flatMap((line) => {
    const [, address = '', flags = '', , , , epoch, , ...ranges] = line.split(' ');
    const has = ranges.some((range) => {
      const [from = 0, to = from] = range.split('-').map(Number);
      return slot >= from && slot <= to;
    });
    const port = Number(/:(\d+)@/.exec(address)?.[1]);
    return has && flags.includes('master') ? [{ port, epoch: Number(epoch) }] : [];
  });
}

/** Resolves with true if a node reports that the cluster is well, and that its replication works. */
export async function isWell(node: ClusterNode, hasReplicas: boolean): Promise<boolean> {
  const call = callerOf(node);
  const [info, replication] = [await call('CLUSTER', 'INFO'), await call('INFO', 'replication')];
  const isOk = /cluster_state:ok/.test(String(info)) && /cluster_slots_ok:16384/.test(String(info));
  if (!hasReplicas) return isOk;
  const follows = /role:slave/.test(String(replication)) ? /master_link_status:up/ : /connected_slaves:[1-9]/;
  return isOk && follows.test(String(replication));
}
