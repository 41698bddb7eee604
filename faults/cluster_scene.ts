import type { Random } from '../harness/random.ts';
import { tagOf } from '../harness/redis/private_cluster.ts';
import { nameIn } from '../harness/scripts/crossing.ts';
import { until } from '../harness/until.ts';
import type { Audience, Lab } from './lab.ts';
import type { Publishing } from './publishing.ts';

/** Settings of a bus on a cluster of three masters, with several partitions on each. */
export const CLUSTER_BUS = {
  cluster: true,
  env: {
    ROUTEMASTER_PARTITIONS: '8',
    ROUTEMASTER_MIN_REPLICAS: '1',
    ROUTEMASTER_WORKER_LEASE: '3',
  },
};

/** The topic of one partition, with its subscriber and its publishing. */
interface Lane {
  topic: string;
  tag: string;
  audience: Audience;
  publishing: Publishing;
}

/** Starts processes, and publishes to one topic of each partition. Their subscribers are in any partition. */
async function publishEverywhere(lab: Lab, perSecond: number): Promise<Lane[]> {
  await lab.start('web');
  await lab.start('web');
  await lab.start('worker');
  const { partitions } = lab.bus;
  const lanes: Lane[] = [];
  for (const partition of partitions.all) {
    const { index } = partition;
    const topic = nameIn(partitions, index, 'topic');
    const ordered = index % 2 === 0;
    const audience = await lab.subscribe(`subscriber${index}`, { topic, timeout: 50, max: 20, ordered });
    lanes.push({ topic, audience, tag: tagOf(partition) } as Lane);
  }
  // The bus waits for replicas only when it publishes. The subscriptions must have reached them before the first fault.
  for (const partition of partitions.all)
    await until(() => partition.command((redis) => redis.wait(1, 1000)), { what: 'the replicas have all' });
  for (const lane of lanes)
    lane.publishing = lab.publish({ topic: lane.topic, again: true, perSecond: perSecond / lanes.length });
  return lanes;
}

interface Disturbance {
  lanes: readonly Lane[];
  /** The hash tag of a random partition. */
  tag: string;
  random: Random;
  /** Says which of the disturbances this is, such as `2 of 10`. */
  count: string;
}

interface Disturbing {
  /** Names the stream of random numbers. */
  name: string;
  times: number;
  disturb(disturbance: Disturbance): Promise<void>;
}

/**
 * Publishes to each partition of a cluster. Meanwhile calls `disturb` as often as `times` says. At the end all events
 * are delivered, and no process may have exited.
 */
export async function disturbCluster(lab: Lab, { name, times, disturb }: Disturbing): Promise<void> {
  const lanes = await publishEverywhere(lab, 400);
  const processes = [lab.bus.process('web'), lab.bus.process('worker')];
  const random = lab.random.fork(name);
  for (let time = 1; time <= times; time++) {
    await until(() => acceptedBy(lanes) >= (lab.events / (times + 1)) * time, { timeoutMs: 60_000 });
    const { tag } = lanes[random.whole(0, lanes.length - 1)] ?? { tag: '' };
    await disturb({ lanes, tag, random, count: `${time} of ${times}` });
  }
  await until(() => acceptedBy(lanes) >= lab.events, { timeoutMs: 60_000, what: 'all are published' });
  for (const { publishing } of lanes) await publishing.stop();
  await lab.settle();
  lab.noneExited(processes);
}

const acceptedBy = (lanes: readonly Lane[]) =>
  lanes.reduce((sum, { publishing }) => sum + publishing.accepted, 0);

const WITHIN_MS = 30_000;

/** Resolves when each topic has accepted more than now. */
export async function allAccept(lanes: readonly Lane[]): Promise<void> {
  const accepts = ({ topic, publishing }: Lane) => {
    const before = publishing.accepted;
    const what = `${topic} is published to again`;
    return until(() => publishing.accepted > before, { timeoutMs: WITHIN_MS, what });
  };
  await Promise.all(lanes.map(accepts));
}

/** Resolves when each topic was delivered more often than now. */
export async function allDeliver(lanes: readonly Lane[]): Promise<void> {
  const delivers = ({ topic, audience: { receiver } }: Lane) => {
    const before = receiver.deliveries.length;
    const what = `${topic} is delivered again`;
    return until(() => receiver.deliveries.length > before, { timeoutMs: WITHIN_MS, what });
  };
  await Promise.all(lanes.map(delivers));
}
