import { deliveryLines } from './delivery_lines.ts';
import { HTTPS_PORT, RECEIVER_PORT, Receiver } from './sample_receiver.ts';

const port = Number(process.argv[2] ?? RECEIVER_PORT);
try {
  const receiver = await Receiver.start(port, (delivery) => console.log(deliveryLines(delivery).join('\n')));
  console.log(`waiting for batches on ${receiver.callback}   (Ctrl-C stops it)`);
  const stop = () => receiver.stop();
  process.once('SIGINT', stop).once('SIGTERM', stop);
} catch (error) {
  const { code, message } = error as NodeJS.ErrnoException;
  const taken =
    `port ${port} is taken, perhaps by another bin/receive, or by rtm listen: stop that, or give another port. ` +
    `The bus must allow callbacks there: start it with ROUTEMASTER_CALLBACK_PORTS=${HTTPS_PORT},${RECEIVER_PORT},PORT`;
  console.error(`receive: ${code === 'EADDRINUSE' ? taken : message}`);
  process.exitCode = 1;
}
