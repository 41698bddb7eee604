# Calls a bus as the gem routemaster-client does, by net/http alone, and raises where the gem would raise.
# usage: ruby gem.rb BUS_URL ROOT_KEY CALLBACK [PUBLISHER_TOKEN SUBSCRIBER_TOKEN]
require 'json'
require 'net/http'

BUS, ROOT_KEY, CALLBACK, *TOKENS = ARGV

# A client of the bus, with HTTP Basic: its token and any password.
class Client
  def initialize(token)
    @token = token
    raise 'cannot connect to bus' unless success?(call(Net::HTTP::Get, '/pulse'))
  end

  def event(type, topic, url, timestamp: nil, data: nil)
    body = { type: type, url: url, timestamp: timestamp, data: data }
    response = call(Net::HTTP::Post, "/topics/#{topic}", body)
    raise "event rejected (#{response.code})" unless success?(response)
  end

  def subscribe(options)
    raise 'subscribe rejected' unless success?(call(Net::HTTP::Post, '/subscription', options))
  end

  def delete(path)
    raise "#{path} rejected" unless success?(call(Net::HTTP::Delete, path))
  end

  def topics
    list('/topics').map { |each| %w[name publisher events].map { |key| each.fetch(key) } }
  end

  def subscriptions
    list('/subscriptions').map { |each| %w[subscriber uuid callback topics events].map { |key| each.fetch(key) } }
  end

  def add_token(name, token)
    response = call(Net::HTTP::Post, '/api_tokens', name: name, token: token)
    raise "failed to add token (#{response.code})" unless success?(response)

    JSON.parse(response.body).fetch('token')
  end

  private

  def list(path)
    response = call(Net::HTTP::Get, path)
    raise "failed to connect to #{path}" unless success?(response)

    JSON.parse(response.body)
  end

  def call(verb, path, body = nil)
    uri = URI(BUS + path)
    request = verb.new(uri, 'Content-Type' => 'application/json')
    request.basic_auth(@token, 'x')
    request.body = JSON.dump(body) if body
    Net::HTTP.start(uri.host, uri.port) { |http| http.request(request) }
  end

  def success?(response)
    response.is_a?(Net::HTTPSuccess)
  end
end

root = Client.new(ROOT_KEY)
publisher, subscriber = %w[net-shop net-mails].zip(TOKENS).map { |name, token| Client.new(root.add_token(name, token)) }

subscriber.subscribe(topics: %w[net_orders], callback: CALLBACK, uuid: 'net-drain', timeout: 0, max: 1)
publisher.event('create', 'net_orders', 'https://shop.example.com/net/1')
publisher.event('update', 'net_orders', 'https://shop.example.com/net/2', timestamp: (Time.now.to_f * 1e3).to_i)
publisher.event('delete', 'net_orders', 'https://shop.example.com/net/3', data: { color: 'teal' })

raise 'the topic is not listed' unless publisher.topics.any? { |name, _, events| name == 'net_orders' && events == 3 }
raise 'the subscription is not listed' unless subscriber.subscriptions.any? { |_, uuid| uuid == 'net-drain' }

root.subscriptions
subscriber.delete('/subscriber/topics/net_orders')
publisher.delete('/topics/net_orders')
puts 'done'
