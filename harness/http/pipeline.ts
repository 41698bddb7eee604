import { pino } from 'pino';
import { CallLimits } from '../../src/http/call_limits.ts';
import type { PipelineParts } from '../../src/http/pipeline.ts';
import { WorkBudget } from '../../src/http/work_budget.ts';
import { AuditedCall } from '../../src/records/audit.ts';
import { DIALECTS } from '../../src/routing/dialect.ts';
import { Proxies } from '../../src/routing/proxies.ts';

/** Returns the parts of a pipeline. Those that are not given let every call through, and record nothing. */
export function pipelineParts(
  given: Pick<PipelineParts, 'authentication'> & Partial<PipelineParts>,
): PipelineParts {
  const proxies = new Proxies(0);
  return {
    sessions: { of: async () => undefined },
    ...{ proxies, forceSsl: false, ready: () => true, dialect: DIALECTS.none },
    storageWatch: { check: () => undefined },
    log: pino({ level: 'silent' }),
    recorder: { callRefused: () => {} },
    budget: new WorkBudget(),
    callLimits: new CallLimits({ callRate: 0, strangerRate: 0 }, proxies),
    audit: {
      begin(_action, caller) {
        return new AuditedCall(
          caller,
          async (token) => token,
          () => {},
        );
      },
    },
    lastSeen: { note: () => {} },
    ...given,
  };
}
