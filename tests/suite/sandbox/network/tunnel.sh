# Gives the host of outside.sh addresses of TUN proxies and VPNs, and makes a route to them. Then runs a command.
#
#   there: 198.18.0.10, 100.64.0.10, 10.1.2.3
#
# $1 says where the route leads: "cable", "tun" for a TUN interface, or "tap" for a TAP interface with nothing behind it.
# $2 is the directory with tunnel.py. The rest is the command.
set -e
PATH=$PATH:/usr/sbin:/sbin
way=$1
dir=$2
shift 2
there="nsenter -t $host -n"
for address in 198.18.0.10 100.64.0.10 10.1.2.3; do
    $there ip addr add $address/32 dev lo
done
route="dev tunnel"
case $way in
cable) route="via 203.0.113.10" ;;
tap)
    ip tuntap add dev tunnel mode tap
    ip link set tunnel up
    ;;
tun)
    mkfifo "$dir/near" "$dir/far"
    $there python3 "$dir/tunnel.py" 203.0.113.10 203.0.113.1 "$dir/far" &
    far=$!
    python3 "$dir/tunnel.py" 203.0.113.1 203.0.113.10 "$dir/near" &
    near=$!
    trap 'kill $far $near' EXIT
    read -r _ < "$dir/far"
    read -r _ < "$dir/near"
    $there ip addr add 192.0.2.10/32 peer 192.0.2.1 dev tunnel
    $there ip link set tunnel up
    ip addr add 192.0.2.1/32 peer 192.0.2.10 dev tunnel
    ip link set tunnel up
    ;;
esac
for network in 198.18.0.0/15 100.64.0.0/10 10.0.0.0/8; do
    ip route add $network $route
done
"$@"
