import cluster from 'node:cluster';
import { readConfig, unknownVariables } from './config.ts';
import { createLog } from './log.ts';
import { onStop, start } from './process.ts';
import { serve } from './serve.ts';
import { WebProcesses } from './web_processes.ts';

await start(async () => {
  const config = readConfig();
  const log = createLog(config.logLevel, { process: 'web', pid: process.pid });
  if (cluster.isPrimary) for (const warning of unknownVariables()) log.warn(warning);
  if (!cluster.isPrimary || config.webProcesses === 1) return serve(config, log);

  const processes = new WebProcesses(config.webProcesses, log);
  processes.start();
  onStop(log, () => processes.stop());
});
