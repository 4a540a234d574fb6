# Copyright The entrypointer Authors
# SPDX-License-Identifier: Apache-2.0

# Sends the log service what no supervisor sends: connections without a request, on both
# ports, and with a pod's tokens requests whose bodies never come, and streams without end,
# each with labels of its own. Prints how often each answer came.
import http.client, json, socket, ssl, sys, threading, time

HOST, SECONDS, SILENT, TOKENS = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4:]
context = ssl._create_unverified_context()
end = time.time() + SECONDS
results = {}

def count(what):
    results[what] = results.get(what, 0) + 1

def is_closed(s):
    try:
        s.setblocking(False)
        return s.recv(1) == b''
    except BlockingIOError:
        return False
    except OSError:
        return True

# Keeps a number of silent connections open.
def silent(port):
    open = []
    while time.time() < end:
        closed = [s for s in open if is_closed(s)]
        for s in closed:
            s.close()
            open.remove(s)
            count('silent connection closed')
        while len(open) < SILENT and time.time() < end:
            try:
                open.append(socket.create_connection((HOST, port), timeout=5))
            except OSError as e:
                count(type(e).__name__)
                break
        time.sleep(0.2)

def create(token):
    while time.time() < end:
        try:
            c = http.client.HTTPSConnection(HOST, 443, timeout=30, context=context)
            c.request('POST', '/logs', '{"name":"stdout"}', {'Authorization': 'Bearer ' + token, 'Content-Type': 'application/json'})
            return json.load(c.getresponse())['id']
        except Exception as e:
            count('create ' + type(e).__name__)
            time.sleep(0.2)

def bodyless(token, stream):
    header = ('PATCH /logs/' + stream + '/data HTTP/1.1\r\nHost: ' + HOST + '\r\nAuthorization: Bearer ' + token +
        '\r\nContent-Type: application/octet-stream\r\nContent-Range: bytes 0-262143/*\r\nContent-Length: 262144\r\n\r\n').encode()
    while time.time() < end:
        try:
            with context.wrap_socket(socket.create_connection((HOST, 443), timeout=30), server_hostname=HOST) as s:
                s.sendall(header)
                count('bodyless ' + s.recv(12).decode()[-3:])
        except Exception as e:
            count('bodyless ' + type(e).__name__)
            time.sleep(0.2)

LABELS = ('tekton.dev/taskRun', 'tekton.dev/pipelineRun', 'tekton.dev/pipelineTask', 'serving.knative.dev/service', 'serving.knative.dev/revision')

# Creates a stream after the other, and each a second time with other labels. It begins
# when the connections are open.
def declare(token):
    i = 0
    time.sleep(SECONDS / 2)
    while time.time() < end:
        try:
            c = http.client.HTTPSConnection(HOST, 443, timeout=30, context=context)
            while time.time() < end:
                i += 1
                body = json.dumps({'name': 'stdout', 'container': 'main', 'start': str(i // 2), 'labels': {key: 'v' + str(i) for key in LABELS}})
                c.request('POST', '/logs', body, {'Authorization': 'Bearer ' + token, 'Content-Type': 'application/json'})
                answer = c.getresponse()
                answer.read()
                count('declared ' + str(answer.status))
        except Exception as e:
            count('declare ' + type(e).__name__)
            time.sleep(0.2)

threads = [threading.Thread(target=silent, args=(port,)) for port in (443, 8444)]
for token in TOKENS:
    stream = create(token)
    threads += [threading.Thread(target=bodyless, args=(token, stream)) for _ in range(16)]
    threads.append(threading.Thread(target=declare, args=(token,)))
for t in threads: t.start()
for t in threads: t.join()
print(results)
