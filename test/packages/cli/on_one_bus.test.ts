// These tests share one bus, because its start takes as much CPU as a dozen commands.
import './ruby_commands.ts';
import './pub.ts';
import './listen.ts';
import './wrong_address.ts';
import './sub_topic_and_token.ts';
