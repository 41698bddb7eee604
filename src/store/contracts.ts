import type { Received, Sent } from './contract.ts';
import { authenticationContracts } from './contracts/authentication.ts';
import { deliveringContracts } from './contracts/delivering.ts';
import { flowContracts } from './contracts/flow.ts';
import { maintenanceContracts } from './contracts/maintenance.ts';
import { metricsContracts } from './contracts/metrics.ts';
import { publishingContracts } from './contracts/publishing.ts';
import { recordsContracts } from './contracts/records.ts';
import { subscribingContracts } from './contracts/subscribing.ts';

/**
 * For every script in `lua/`, the types of its arguments and reply. The comment at the head of a script says what each
 * of them means.
 */
export const contracts = {
  ...authenticationContracts,
  ...deliveringContracts,
  ...flowContracts,
  ...maintenanceContracts,
  ...metricsContracts,
  ...publishingContracts,
  ...recordsContracts,
  ...subscribingContracts,
};

export type ScriptName = keyof typeof contracts;

export type Arguments<N extends ScriptName> = Sent<(typeof contracts)[N]['arguments']>;

export type Reply<N extends ScriptName> = Received<(typeof contracts)[N]['reply']>;
