import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { root } from '../processes/command.ts';
import { REDIS_PREFIX } from './store.ts';

/** Returns the rules that the user of release 1.0.0 needs more on one Redis, as docs/migrating.md has them. */
export function rulesSinceFirstRelease(): string {
  const text = readFileSync(join(root, 'docs/migrating.md'), 'utf8');
  const [, rules = ''] = /^ACL SETUSER routemaster ([\s\S]*?)^```$/m.exec(text) ?? [];
  return rules.trim().replace(/\s+/g, ' ');
}

/** Returns the rules of the ACL in docs/operating.md, the only place that lists them, for the prefix of tests. */
export function aclRules(): string[] {
  const [, rules = ''] =
    /^ACL SETUSER routemaster ([\s\S]*?)^```$/m.exec(readFileSync(join(root, 'docs/operating.md'), 'utf8')) ??
    [];
  return rules
    .trim()
    .split(/\s+/)
    .map((rule) => rule.replace(/^[~&]/, `$&${REDIS_PREFIX}`));
}
