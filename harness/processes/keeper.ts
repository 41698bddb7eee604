import { type ChildProcess, spawn } from 'node:child_process';

// `read` succeeds when we write a line, as we do after the process was stopped properly. It fails at end of file, which a pipe
// gives when the process at its other end, ours, has ended in whatever way. This works on Linux and macOS.
const script = 'read -r done && exit 0; kill -s "$1" "$2" 2>/dev/null; [ -z "$3" ] || rm -rf -- "$3"';

/**
 * Stops process `pid` with `signal` if we die without having stopped it (SIGKILL, a crash), and then removes `temporaryDir`
 * if one is given. Call the returned function when the process has ended.
 */
export function keep(pid: number, signal: 'TERM' | 'KILL', temporaryDir = ''): () => void {
  const keeper: ChildProcess = spawn('sh', ['-c', script, 'keeper', signal, String(pid), temporaryDir], {
    stdio: ['pipe', 'ignore', 'ignore'],
    detached: true,
  });
  keeper.on('error', () => {}); // no `sh`: everything works, without a keeper
  keeper.stdin?.on('error', () => {});
  keeper.unref();
  (keeper.stdin as unknown as { unref?: () => void } | null)?.unref?.();
  return () => keeper.stdin?.end('done\n');
}
