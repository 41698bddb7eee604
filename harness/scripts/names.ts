import { packJob, unpackJob } from '../../src/store/job.ts';

const DIGITS = '-0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz';

/**
 * Returns the short name of a batch: the second batch that the call with the seed `first` made is `first2`.
 * Returns other UIDs unchanged.
 */
export function shortName(bid: string): string {
  const [, word, high = '', low = ''] = /^([a-z]+)-*--(.)(.)$/.exec(bid) ?? [];
  if (bid.length !== 20 || word === undefined) return bid;
  return `${word}${DIGITS.indexOf(high) * 64 + DIGITS.indexOf(low) + 1}`;
}

/** The inverse of `shortName`, for names like `first2`. */
export function longName(name: string): string {
  const [, word = '', count = '1'] = /^([a-z]+)(\d+)$/.exec(name) ?? [];
  const index = Number(count) - 1;
  return `${seedOf(word)}--${DIGITS[Math.floor(index / 64)]}${DIGITS[index % 64]}`;
}

export function seedOf(word: string): string {
  return word.padEnd(16, '-');
}

/** Returns a different seed for each n, up to 676. */
export function nthWord(n: number): string {
  return String.fromCharCode(97 + Math.floor(n / 26), 97 + (n % 26));
}

/**
 * Returns a name for a packed job: for `batch(bid)` the batch's short name, for other jobs their own name,
 * for other bytes their hex.
 */
export function jobName(packed: Buffer): string {
  const job = unpackJob(packed);
  if (!job) return packed.toString('hex');
  return job.name === 'batch' && typeof job.args[0] === 'string' ? shortName(job.args[0]) : job.name;
}

/** The inverse of `jobName`, for names like `first2` and `scrub`. */
export function packNamed(name: string): Buffer {
  return /\d$/.test(name) ? packJob('batch', [longName(name)]) : packJob(name);
}
