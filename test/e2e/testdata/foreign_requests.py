# Copyright The entrypointer Authors
# SPDX-License-Identifier: Apache-2.0

# Sends an injector what no API server sends: objects that become a hundred times their
# length, requests without an end, and connections without a request. Prints how often
# each answer came.
import http.client, socket, ssl, sys, threading, time

HOST, NAMESPACE, SECONDS, PATHS = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4:]
context = ssl._create_unverified_context()
end = time.time() + SECONDS
results = {}

def review(spec, namespace=NAMESPACE):
    return ('{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u","kind":{"version":"v1","kind":"Pod"},'
        '"resource":{"version":"v1","resource":"pods"},"namespace":"' + namespace + '","operation":"CREATE",'
        '"object":{"metadata":{"name":"p","annotations":{"entrypointer.dev/inject":"true"}},"spec":' + spec + '}}}').encode()

def lists(length, field):
    n = length // 3
    return '{"' + field + '":[' + ','.join(['{}'] * n) + ']}'

bodies = [review(lists(length, field), namespace)
    for length in (3_000_000, 1_000_000, 120_000, 29_000)
    for field in ('volumes', 'containers', 'tolerations')
    for namespace in (NAMESPACE, 'no-such-namespace')]

def post(path):
    i = 0
    while time.time() < end and i < 200:
        body = bodies[i % len(bodies)]
        i += 1
        try:
            c = http.client.HTTPSConnection(HOST, 443, timeout=30, context=context)
            c.request('POST', path, body, {'Content-Type': 'application/json'})
            answer = c.getresponse()
            text = answer.read().decode()
            kind = str(answer.status) + (' refused' if '"allowed":false' in text else ' allowed' if '"allowed":true' in text else '')
            c.close()
        except Exception as e:
            kind = type(e).__name__
        results[kind] = results.get(kind, 0) + 1

def idle(header):
    open = []
    while time.time() < end:
        if len(open) < 100:
            try:
                s = context.wrap_socket(socket.create_connection((HOST, 443), timeout=10), server_hostname=HOST)
                s.sendall(header)
                open.append(s)
            except Exception as e:
                results[type(e).__name__] = results.get(type(e).__name__, 0) + 1
                time.sleep(1)
        else:
            time.sleep(0.5)

threads = [threading.Thread(target=post, args=(path,)) for path in PATHS]
header = ('POST /pods?timeout=30s HTTP/1.1\r\nHost: ' + HOST + '\r\nContent-Type: application/json\r\nContent-Length: 3000000\r\n\r\n').encode()
short = header.replace(b'3000000', b'100')
threads += [threading.Thread(target=idle, args=(h,)) for h in (b'', b'POST /pods HTTP/1.1\r\n', header, header + bodies[0][:200000], short)]
for t in threads: t.start()
for t in threads: t.join()
print(results)
