import type { Target } from './command.ts';
import { bad, CHECK_TIMEOUT_MS, type Finding, good } from './doctor_finding.ts';
import { adviceIfUnreached, causeOf } from './unanswered.ts';

/**
 * Maximum difference between the clocks of the bus and this machine that is not reported. A small difference is
 * uncertain, because the header Date has whole seconds and an answer takes time.
 */
const MAX_SKEW_MS = 10_000;

/**
 * Matches the answer of a bus to `GET /health`, which is `{}`, and may get members in a later release. Another server
 * may answer 200 to everything, mostly with a page.
 */
const HEALTHY = /^\s*\{.*\}\s*$/s;

interface Reached {
  finding: Finding;
  /** True if nothing listens at the address, or if its host is not known. */
  isUnreached?: boolean;
  /** The clocks of the bus and of this machine at the same moment, in ms. Undefined if the bus was not reached. */
  date?: { busMs: number; hereMs: number };
}

/** Requests /health, which needs neither credentials nor Redis. */
export async function askHealth(target: Target): Promise<Reached> {
  const { url } = target;
  const [beganMs, hereMs] = [performance.now(), Date.now()];
  try {
    const signal = AbortSignal.timeout(CHECK_TIMEOUT_MS);
    const response = await fetch(`${url.replace(/\/$/, '')}/health`, { redirect: 'manual', signal });
    const isBus = response.status === 200 && HEALTHY.test(await response.text());
    if (!response.bodyUsed) await response.body?.cancel();
    const tookMs = performance.now() - beganMs;
    const how =
      response.status === 200 && !isBus ? ', but not as a bus does' : ` in ${Math.round(tookMs)} ms`;
    const detail = `${url} answered ${response.status}${how}`;
    if (!isBus) {
      const advice = 'Something else answers there, or a router in front of the bus: check --bus.';
      return { finding: bad('connection', detail, advice) };
    }
    const busMs = Date.parse(response.headers.get('date') ?? '');
    return { finding: good('connection', detail), date: { busMs, hereMs: hereMs + tookMs / 2 } };
  } catch (error) {
    const { code, message } = causeOf(error);
    const unreached = adviceIfUnreached(code, target);
    const advice = unreached === undefined ? adviceFor(code, target) : sentence(unreached);
    const finding = bad('connection', `${url} does not answer: ${message}`, advice);
    return { finding, isUnreached: unreached !== undefined };
  }
}

function sentence(text: string): string {
  return `${text.charAt(0).toUpperCase()}${text.slice(1)}.`;
}

function adviceFor(code: string, target: Target): string {
  if (code === 'BAD_PORT') return 'Check the port of --bus.';
  if (/CERT|TLS|SSL|^UNABLE_TO_VERIFY/.test(code)) return 'See tls above.';
  // A server that speaks only TLS closes a connection of plain http.
  if (target.url.startsWith('http:') && /^(UND_ERR_SOCKET|ECONNRESET)$/.test(code))
    return 'If https is served there, write https:// before the host.';
  if (/Timeout|TIMEDOUT|CONNECT_TIMEOUT/.test(code)) return 'A firewall may drop packets on the way.';
  return 'Check the network between this machine and the bus.';
}

export function clockFinding({ busMs, hereMs }: NonNullable<Reached['date']>): Finding {
  const skewMs = hereMs - busMs;
  if (Number.isNaN(skewMs)) {
    const advice = 'A router in front of the bus removes the header Date.';
    return bad('clock', 'the bus does not say its time', advice);
  }
  // The header Date leaves out fractions of a second, so on average the bus's clock is 500 ms ahead of the header.
  const seconds = Math.round((skewMs - 500) / 1000);
  if (Math.abs(skewMs - 500) <= MAX_SKEW_MS)
    return good('clock', 'this machine and the bus agree about the time');
  const detail = `this machine is ${Math.abs(seconds)} s ${seconds > 0 ? 'ahead of' : 'behind'} the bus`;
  const advice = 'Run NTP on both: receivers refuse signatures that are 300 s off, and ages are wrong.';
  return bad('clock', detail, advice);
}
